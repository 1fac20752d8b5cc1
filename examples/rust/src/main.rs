//! A miniature training loop: each step fetches a sample from a file and computes on it.
//!
//! `dlio trace -- example-spans FILE` shows the spans around their calls. Without `dlio trace`, the program runs
//! unchanged and records nothing.

use std::io::{Read, Seek, SeekFrom};

use dlio_tracer::{counter, instant, span};

const SAMPLE: usize = 64 << 10;

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/usr/bin/env".to_string());
    dlio_tracer::span::describe_process("label", "example");
    let mut file = std::fs::File::open(path)?;
    let mut sample = vec![0; SAMPLE];
    for epoch in 0..2 {
        let _epoch = span!("epoch", cat = "pipeline", epoch = epoch);
        file.seek(SeekFrom::Start(0))?;
        for step in 0..4 {
            let bytes = fetch(&mut file, &mut sample, epoch, step)?;
            let _compute = span!("forward", cat = "compute", epoch = epoch, step = step);
            counter!("loss", compute(&sample[..bytes]));
        }
        instant!("epoch done", cat = "pipeline", epoch = epoch, note = "all samples seen");
    }
    Ok(())
}

fn fetch(file: &mut std::fs::File, sample: &mut [u8], epoch: i32, step: i32) -> std::io::Result<usize> {
    let mut fetch = span!("fetch", cat = "data", epoch = epoch, step = step);
    let bytes = file.read(sample)?;
    fetch.set("bytes", bytes);
    Ok(bytes)
}

fn compute(sample: &[u8]) -> f64 {
    sample.iter().map(|&byte| byte as f64).sum::<f64>() / sample.len().max(1) as f64
}
