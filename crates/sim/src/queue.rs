//! The event queue: every slot of the simulation has at most one event, so an event is an instant and
//! a slot number packed into 64 bits, and the queue a flat heap of them.

use ebbtide_model::units::{Instant, Nanos};

/// Events in order of time; at the same instant the lower slot comes first.
#[derive(Debug)]
pub(super) struct Queue {
    heap: Vec<u64>,
    slot_bits: u32,
}

impl Queue {
    /// For slots 0 to `slots - 1`.
    pub(super) fn new(slots: usize) -> Self {
        let slot_bits = usize::BITS - slots.max(2).saturating_sub(1).leading_zeros();
        Queue { heap: Vec::with_capacity(slots), slot_bits }
    }

    /// The latest instant that can be told; later ones count as this.
    pub(super) fn horizon(&self) -> Instant {
        Instant(u64::MAX >> self.slot_bits)
    }

    #[inline]
    fn pack(&self, at: Instant, slot: u32) -> u64 {
        (at.min(self.horizon()).0 << self.slot_bits) | u64::from(slot)
    }

    #[inline]
    fn unpack(&self, event: u64) -> (Instant, u32) {
        (Instant(event >> self.slot_bits), (event & ((1 << self.slot_bits) - 1)) as u32)
    }

    /// The next event: its instant and its slot.
    #[inline]
    pub(super) fn peek(&self) -> Option<(Instant, u32)> {
        self.heap.first().map(|event| self.unpack(*event))
    }

    /// Adds an event of a slot that has none.
    pub(super) fn push(&mut self, at: Instant, slot: u32) {
        let event = self.pack(at, slot);
        self.heap.push(event);
        let mut child = self.heap.len() - 1;
        while child > 0 {
            let parent = (child - 1) / 2;
            if self.heap[parent] <= event {
                break;
            }
            self.heap[child] = self.heap[parent];
            child = parent;
        }
        self.heap[child] = event;
    }

    /// Removes the next event.
    pub(super) fn pop(&mut self) {
        if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.sift_down(last);
        }
    }

    /// Replaces the next event by one of the same slot: cheaper than taking and adding.
    #[inline]
    pub(super) fn replace(&mut self, at: Instant, slot: u32) {
        let event = self.pack(at, slot);
        self.sift_down(event);
    }

    /// Puts `event` in the place of the first.
    #[inline]
    fn sift_down(&mut self, event: u64) {
        let heap = &mut self.heap[..];
        let mut parent = 0;
        loop {
            let left = 2 * parent + 1;
            let Some(&first) = heap.get(left) else { break };
            let second = heap.get(left + 1).copied().unwrap_or(u64::MAX);
            let (child, value) = if second < first { (left + 1, second) } else { (left, first) };
            if event <= value {
                break;
            }
            heap[parent] = value;
            parent = child;
        }
        heap[parent] = event;
    }

    /// Moves every event by `by` into the future. (The order stays, so the heap does.)
    pub(super) fn shift(&mut self, by: Nanos) {
        for index in 0..self.heap.len() {
            let (at, slot) = self.unpack(self.heap[index]);
            self.heap[index] = self.pack(at + by, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_sorted_set(steps in prop::collection::vec((0u8..3, 0u64..1000), 1..300)) {
            let mut queue = Queue::new(64);
            let mut oracle = BTreeSet::new();
            let mut free: Vec<u32> = (0..64).collect();
            for (step, at) in steps {
                let next = oracle.first().copied();
                prop_assert_eq!(queue.peek().map(|(at, slot)| (at.0, slot)), next);
                match (step, next) {
                    (0, _) => if let Some(slot) = free.pop() {
                        queue.push(Instant(at), slot);
                        oracle.insert((at, slot));
                    },
                    (1, Some(first)) => {
                        queue.pop();
                        oracle.remove(&first);
                        free.push(first.1);
                    }
                    (_, Some(first)) => {
                        queue.replace(Instant(first.0 + at), first.1);
                        oracle.remove(&first);
                        oracle.insert((first.0 + at, first.1));
                    }
                    _ => {}
                }
            }
            queue.shift(Nanos(5));
            prop_assert_eq!(queue.peek(), oracle.first().map(|(at, slot)| (Instant(at + 5), *slot)));
        }
    }
}
