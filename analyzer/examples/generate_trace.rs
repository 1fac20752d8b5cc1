//! Writes a made-up trace of any size: `generate_trace DIR EVENTS [PROCESSES] [THREADS] [FILES] [SEED]`, or that of a job
//! with many ranks: `generate_trace DIR --ranks N`.

#[path = "../tests/generator/mod.rs"]
mod generator;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, default: u64| words.get(place).and_then(|word| word.parse().ok()).unwrap_or(default);
    let Some(folder) = words.first() else {
        eprintln!(
            "usage: generate_trace DIR EVENTS [PROCESSES] [THREADS] [FILES] [SEED], or generate_trace DIR --ranks N"
        );
        std::process::exit(2);
    };
    if words.get(1).is_some_and(|word| word == "--ranks") {
        let ranks = number(2, 1000) as usize;
        std::fs::create_dir_all(folder).expect("a directory for the trace");
        let all = (0..ranks).flat_map(|rank| generator::ranks::rank(rank, ranks));
        return all.for_each(|process| process.write_to(folder.as_ref()));
    }
    let plan = generator::Plan {
        events: number(1, 1_000_000),
        processes: number(2, 8) as usize,
        threads: number(3, 5) as usize,
        files: number(4, 100_000) as u32,
        seed: number(5, 1),
        ..generator::Plan::default()
    };
    if let Err(error) = generator::generate(folder.as_ref(), &plan, &|_, _, _| ()) {
        eprintln!("{folder}: cannot be written ({error})");
        std::process::exit(1);
    }
}
