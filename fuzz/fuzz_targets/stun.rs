#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| festina_fuzz_bodies::stun::run(data));
