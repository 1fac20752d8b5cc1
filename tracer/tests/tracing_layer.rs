//! Tests spans of the crate `tracing`, through the engine linked here, in a trace that is read back.
#![cfg(feature = "tracing")]

use dlio_schemas::native::file::Image;
use dlio_schemas::native::names::NameKind;
use tracing_subscriber::layer::SubscriberExt;

const CHILD: &str = "TRACING_LAYER_TEST_CHILD";

fn instrumented() {
    let subscriber = tracing_subscriber::registry().with(dlio_tracer::tracing_layer::Recorder);
    tracing::subscriber::with_default(subscriber, || {
        let fetch = tracing::info_span!("fetch", cat = "data", epoch = 1, step = 3, late = tracing::field::Empty);
        for _ in 0..2 {
            let _entered = fetch.enter();
            fetch.record("late", "known now");
            tracing::info_span!("inner").in_scope(|| tracing::info!(samples = 7, "a batch is here"));
        }
    });
}

/// The test runs itself again in an environment that requests a trace: the engine reads it once per process.
#[test]
fn spans_and_events_of_tracing_arrive() {
    if std::env::var_os(CHILD).is_some() {
        return instrumented();
    }
    let folder = std::env::temp_dir().join(format!("dlio-tracing-layer-{}", std::process::id()));
    let status = std::process::Command::new(std::env::current_exe().expect("this test's file"))
        .args(["--exact", "spans_and_events_of_tracing_arrive"])
        .envs([(CHILD, "1"), ("DLIO_TRACE_FORMAT", "native")])
        .env("DLIO_TRACE_DIR", &folder)
        .status()
        .expect("the test runs");
    assert!(status.success());
    let files: Vec<_> = std::fs::read_dir(&folder).expect("a trace").map(|file| file.expect("a file").path()).collect();
    let [file] = &files[..] else { panic!("one trace, not {files:?}") };
    let bytes = std::fs::read(file).expect("the trace");
    let image = Image::from_dlt(&bytes).expect("a whole trace");
    std::fs::remove_dir_all(&folder).expect("to tidy up");

    let names: Vec<_> = image.names.iter().map(|(_, kind, text)| (kind, String::from_utf8_lossy(text))).collect();
    for (kind, text) in [
        (NameKind::Span, "fetch"),
        (NameKind::Category, "data"),
        (NameKind::Text, "known now"),
        (NameKind::Span, "inner"),
        (NameKind::Span, "a batch is here"),
        (NameKind::Text, "samples"),
    ] {
        assert!(names.contains(&(kind, text.into())), "{kind:?} {text} is not among {names:?}");
    }
    // Entered twice: 2 fetch, 2 inner, 2 instants, and as metadata 2 of `samples` and 1 + 2 of `late`, which is known
    // from the start the second time.
    assert_eq!((image.events(), image.misused_spans, image.lost), (11, 0, 0));
}
