#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dlio_fuzz::analyzer::darshan_log(data));
