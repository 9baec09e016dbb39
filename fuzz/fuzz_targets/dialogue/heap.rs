//! An allocator that records the owner of each block.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

/// The two hosts, and everything else.
const OWNERS: usize = 3;
const UNOWNED: usize = 2;

thread_local! {
    static OWNER: Cell<usize> = const { Cell::new(UNOWNED) };
}

static LIVE: [AtomicIsize; OWNERS] = [const { AtomicIsize::new(0) }; OWNERS];

/// Counts live bytes by owner. The owner is written in front of each block, so any code may free it.
pub struct Tagging;

fn widened(layout: Layout) -> (Layout, usize) {
    let front = layout.align().max(align_of::<usize>());
    (Layout::from_size_align(layout.size() + front, front).expect("no allocation is that large"), front)
}

// SAFETY: every block is one of the system allocator's, extended by a front that contains the owner and keeps the
// alignment.
unsafe impl GlobalAlloc for Tagging {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (wide, front) = widened(layout);
        let owner = OWNER.try_with(Cell::get).unwrap_or(UNOWNED);
        // SAFETY: the layout is not empty, and the front has room for the owner.
        unsafe {
            let block = System.alloc(wide);
            if block.is_null() {
                return block;
            }
            block.cast::<usize>().write(owner);
            LIVE[owner].fetch_add(layout.size() as isize, Ordering::Relaxed);
            block.add(front)
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let (wide, front) = widened(layout);
        // SAFETY: `alloc` made the block with the same layout.
        unsafe {
            let block = pointer.sub(front);
            let owner = block.cast::<usize>().read();
            LIVE[owner].fetch_sub(layout.size() as isize, Ordering::Relaxed);
            System.dealloc(block, wide);
        }
    }
}

/// Runs an action for a host, which owns the memory allocated meanwhile.
pub fn on_behalf_of<T>(host: usize, action: impl FnOnce() -> T) -> T {
    let before = OWNER.replace(host);
    let result = action();
    OWNER.set(before);
    result
}

/// Live bytes that were allocated on behalf of a host.
pub fn live_bytes(host: usize) -> isize {
    LIVE[host].load(Ordering::Relaxed)
}
