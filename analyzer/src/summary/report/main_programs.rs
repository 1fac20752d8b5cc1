//! The program that took the time of a process: a shell may become another program at its end, or run several.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::catalog::Process;
use crate::process_tree::{GENERATIONS_MAX, above, parents};
use crate::summary::tree::is_shell;

/// Images of processes, by process and by parent.
pub struct MainPrograms<'a> {
    processes: &'a [Process],
    parents: Vec<Option<u32>>,
    /// By host, process and parent.
    images: BTreeMap<(u32, i32, Option<i32>), Vec<u32>>,
    /// By the image that started them.
    children: BTreeMap<u32, Vec<u32>>,
}

impl<'a> MainPrograms<'a> {
    pub fn new(processes: &'a [Process]) -> MainPrograms<'a> {
        let parents = parents(processes);
        let (mut images, mut children) = (BTreeMap::<_, Vec<u32>>::new(), BTreeMap::<_, Vec<u32>>::new());
        for ((number, process), parent) in (0..).zip(processes).zip(&parents) {
            images.entry((process.host, process.pid, process.ppid)).or_default().push(number);
            if let Some(parent) = parent {
                children.entry(*parent).or_default().push(number);
            }
        }
        MainPrograms { processes, parents, images, children }
    }

    /// Returns the image to look at for one that `waiting` waited for: the one that took most of the time of its process.
    /// If a shell below `waiting` ran it, returns the longest run of the program that took most of the shell's time.
    pub fn of(&self, proc: u32, waiting: u32) -> u32 {
        let Some(process) = self.processes.get(proc as usize).filter(|_| proc != waiting) else { return proc };
        let images = self.images.get(&(process.host, process.pid, process.ppid)).into_iter().flatten().copied();
        let main = images.max_by_key(|image| self.life(*image)).unwrap_or(proc);
        let around: BTreeSet<u32> = above(&self.parents, waiting).into_iter().chain([waiting]).collect();
        let is_script = |image: &u32| self.is_shell(*image) && !around.contains(image);
        let start = if self.is_shell(main) { Some(main) } else { self.parents[main as usize].filter(is_script) };
        let Some(start) = start else { return main };
        let shells = std::iter::successors(Some(start), |image| self.parents[*image as usize].filter(is_script));
        let shell = shells.take(GENERATIONS_MAX).last().unwrap_or(start);
        self.program_of(shell, main)
    }

    /// Returns the longest run of the program that took at least half of a shell's time, `main` if it did, or the shell.
    fn program_of(&self, shell: u32, main: u32) -> u32 {
        let mut lives: BTreeMap<&str, (i64, u32)> = BTreeMap::new();
        for &child in self.children.get(&shell).into_iter().flatten() {
            let Some(program) = self.program(child) else { continue };
            let (sum, longest) = lives.entry(program).or_insert((0, child));
            *sum += self.life(child);
            *longest = if self.life(child) > self.life(*longest) { child } else { *longest };
        }
        lives.retain(|_, (sum, _)| 2 * *sum > self.life(shell));
        if self.program(main).is_some_and(|program| lives.contains_key(program)) {
            return main;
        }
        match lives.into_values().max() {
            Some((_, child)) if self.is_shell(child) => self.program_of(child, main),
            Some((_, child)) => child,
            None => shell,
        }
    }

    fn is_shell(&self, image: u32) -> bool {
        self.program(image).is_some_and(is_shell)
    }

    fn program(&self, image: u32) -> Option<&str> {
        Path::new(self.processes[image as usize].program.as_deref()?).file_name()?.to_str()
    }

    /// Returns how long an image ran; zero if that is unknown.
    fn life(&self, image: u32) -> i64 {
        let image = &self.processes[image as usize];
        image.start_ts.zip(image.end_ts).map_or(0, |(start, end)| end - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(pid: i32, ppid: i32, program: &str, start: i64, end: i64) -> Process {
        let program = Some(program.to_string());
        Process { pid, ppid: Some(ppid), program, start_ts: Some(start), end_ts: Some(end), ..Process::default() }
    }

    #[test]
    fn a_shell_is_named_by_the_program_that_took_its_time() {
        let ran = [
            image(9, 0, "sh", 0, 2000),
            image(1, 9, "python3", 0, 1000),
            image(2, 1, "python3", 10, 11),
            image(2, 1, "sh", 11, 110),
            image(3, 2, "sleep", 12, 108),
            image(2, 1, "head", 110, 112),
            image(4, 1, "gzip", 200, 300),
            image(5, 1, "sh", 400, 500),
            image(6, 5, "sleep", 400, 490),
            image(7, 5, "head", 490, 500),
        ];
        let programs = MainPrograms::new(&ran);
        assert_eq!([5, 7, 9, 6, 1].map(|proc| programs.of(proc, 1)), [4, 8, 8, 6, 1]);
    }

    #[test]
    fn a_pipeline_is_named_by_the_program_that_was_slow() {
        let ran = [
            image(1, 0, "python3", 0, 900),
            image(2, 1, "sh", 0, 100),
            image(3, 2, "gzip", 0, 99),
            image(4, 2, "sort", 0, 100),
        ];
        let programs = MainPrograms::new(&ran);
        assert_eq!([2, 3].map(|proc| programs.of(proc, 0)), [2, 3]);
    }

    #[test]
    fn a_shell_that_works_itself_keeps_its_name() {
        let ran = |end| {
            [
                image(1, 0, "sh", 0, 99),
                image(2, 1, "sh", 0, 99),
                image(3, 2, "cat", 10, 30),
                image(4, 2, "cat", 40, end),
            ]
        };
        assert_eq!(MainPrograms::new(&ran(60)).of(1, 0), 1);
        assert_eq!(MainPrograms::new(&ran(99)).of(1, 0), 3);
    }
}
