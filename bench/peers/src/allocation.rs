//! A global allocator that counts live bytes and allocations while it is asked to.
//!
//! Ready-made counting allocators use atomic read-modify-write instructions on each call, which would burden the CPU
//! measurements of the stacks that allocate most. This one costs a load and a branch while it is switched off.

#![expect(
    unsafe_code,
    reason = "GlobalAlloc is an unsafe trait; every call is passed on to the system allocator unchanged"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Whether allocations are counted.
static COUNTING: AtomicBool = AtomicBool::new(false);
/// Bytes requested and not yet freed since counting began; may fall below zero if earlier blocks are freed.
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

/// Blocks allocated, or moved to grow, while counting.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// The system allocator with a counter of the bytes that callers have asked for.
pub(crate) struct CountingAllocator;

/// Counts from now on.
pub(crate) fn start_counting() {
    COUNTING.store(true, Ordering::Relaxed);
}

/// Counts no longer.
pub(crate) fn stop_counting() {
    COUNTING.store(false, Ordering::Relaxed);
}

/// Bytes allocated less bytes freed while counting.
pub(crate) fn live_bytes() -> i64 {
    LIVE_BYTES.load(Ordering::Relaxed)
}

/// Blocks allocated, or moved to grow, while counting.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

fn count(bytes: usize, sign: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        LIVE_BYTES.fetch_add(sign * i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
        ALLOCATIONS.fetch_add(u64::from(sign > 0), Ordering::Relaxed);
    }
}

// SAFETY: each method passes its arguments and result through `System`; counting touches no memory of the caller.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller upholds the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size, 1);
        count(layout.size(), -1);
        // SAFETY: the caller upholds the contract of `GlobalAlloc::realloc`.
        unsafe { System.realloc(block, layout, new_size) }
    }
}
