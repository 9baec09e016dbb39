//! An allocator that records the owner of each block.

#![expect(unsafe_code, reason = "an allocator is unsafe to implement")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

/// The two hosts, and everything else.
const OWNERS: usize = 3;
const UNOWNED: usize = 2;

thread_local! {
    static OWNER: Cell<usize> = const { Cell::new(UNOWNED) };
    static LIVE: [Cell<isize>; OWNERS] = const { [const { Cell::new(0) }; OWNERS] };
}

fn count(owner: usize, bytes: isize) {
    let _ended = LIVE.try_with(|live| live[owner].set(live[owner].get() + bytes));
}

/// Counts live bytes by owner, on each thread separately. The owner is written in front of each block, so any code may free it.
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
            count(owner, layout.size() as isize);
            block.add(front)
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let (wide, front) = widened(layout);
        // SAFETY: `alloc` made the block with the same layout.
        unsafe {
            let block = pointer.sub(front);
            let owner = block.cast::<usize>().read();
            count(owner, -(layout.size() as isize));
            System.dealloc(block, wide);
        }
    }
}

/// Runs an action for a host, which owns the memory allocated meanwhile.
pub(crate) fn on_behalf_of<T>(host: usize, action: impl FnOnce() -> T) -> T {
    let before = OWNER.replace(host);
    let result = action();
    OWNER.set(before);
    result
}

/// Live bytes that were allocated on behalf of a host.
pub(crate) fn live_bytes(host: usize) -> isize {
    LIVE.with(|live| live[host].get())
}

/// Returns whether the allocator of the program is [`Tagging`].
pub(crate) fn is_counted() -> bool {
    let before = live_bytes(0);
    let _block = on_behalf_of(0, || black_box(Box::new(0_u8)));
    live_bytes(0) > before
}
