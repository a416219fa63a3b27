//! The processor's time stamp counter.

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    /// Whether the processor promises that its counter never stops and never changes its rate.
    pub fn is_invariant() -> bool {
        // Leaf 0x8000_0007, EDX bit 8: "invariant TSC" (Intel SDM volume 3B, 18.17.1; AMD APM volume 3, appendix E).
        const POWER: u32 = 0x8000_0007;
        __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & (1 << 8) != 0
    }

    /// The counter, in ticks of its own rate.
    #[inline]
    pub fn read() -> u64 {
        // SAFETY: every x86_64 CPU has the instruction; where the kernel forbids it to a process (PR_SET_TSC) nothing
        // of the process would survive its own vDSO either.
        unsafe { _rdtsc() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    /// Whether the processor promises that its counter never stops and never changes its rate: none is read here.
    pub fn is_invariant() -> bool {
        false
    }

    /// Nothing: there is no counter that [`is_invariant`].
    pub fn read() -> u64 {
        0
    }
}

pub use counter::{is_invariant, read};
