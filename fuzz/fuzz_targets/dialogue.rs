#![no_main]

#[global_allocator]
static ALLOCATOR: festina_fuzz_bodies::dialogue::Tagging = festina_fuzz_bodies::dialogue::Tagging;

libfuzzer_sys::fuzz_target!(|data: &[u8]| festina_fuzz_bodies::dialogue::run(data));
