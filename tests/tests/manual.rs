//! Tests the pages of the manual, as shown by `man`.

use std::path::Path;
use std::process::Command;

use dlio_tests::artefacts;
use dlio_tests::needs::needs;

fn write(program: &str, how: &str, folder: &Path) {
    let program = artefacts::command(program).unwrap();
    let output = Command::new(&program).arg(how).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_verb_has_a_valid_manual_page() {
    if !needs("groff") {
        return;
    }
    let folder = std::env::temp_dir().join(format!("dlio-manual-{}", std::process::id()));
    // No page overwrites another one; the other order is that of `make install`.
    write("dlio-analyze", "--man", &folder);
    write("dlio-top", "--man", &folder);
    write("dlio", "man", &folder);
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let page = entry.unwrap().path();
        let read = Command::new("groff")
            .args(["-man", "-Kutf8", "-Tutf8", "-P-cbou", "-wall", "-rLL=80n"])
            .arg(&page)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&read.stdout).into_owned();
        assert!(read.status.success() && read.stderr.is_empty(), "{}: {:?}", page.display(), read);
        pages.push((page.file_stem().unwrap().to_string_lossy().into_owned(), text));
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let says = |name: &str, words: &str| {
        let page = pages.iter().find(|(page, _)| page == name).unwrap_or_else(|| panic!("no page {name}"));
        assert!(page.1.contains(words), "{name}: {}", page.1);
    };
    says("dlio", "analyze");
    says("dlio-trace", "record its I/O");
    says("dlio-bench-report", "--json");
    says("dlio-workloads-show", "workload");
    says("dlio-completions", "completion");
    // The program's own page, and not that of a verb that starts it.
    says("dlio-analyze", "--findings");
    says("dlio-top", "--interval");
}
