//! The generator of Go's math/rand/v2, so that a job has the same data in both languages.

/// PCG-DXSM with 128 bits of state, as `rand.NewPCG` makes it.
pub struct Pcg {
    state: u128,
}

impl Pcg {
    pub fn new(seed1: u64, seed2: u64) -> Self {
        Pcg {
            state: u128::from(seed1) << 64 | u128::from(seed2),
        }
    }

    /// `Rand.Uint64`.
    pub fn next(&mut self) -> u64 {
        const MULTIPLIER: u128 = 2549297995355413924 << 64 | 4865540595714422341;
        const INCREMENT: u128 = 6364136223846793005 << 64 | 1442695040888963407;
        const CHEAP: u64 = 0xda942042e4dd58b5;
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        let (mut high, low) = ((self.state >> 64) as u64, self.state as u64);
        high ^= high >> 32;
        high = high.wrapping_mul(CHEAP);
        high ^= high >> 48;
        high.wrapping_mul(low | 1)
    }

    /// `Rand.IntN` and `Rand.Uint64N`.
    pub fn below(&mut self, limit: u64) -> u64 {
        if limit.is_power_of_two() {
            return self.next() & (limit - 1);
        }
        let mut product = self.scaled(limit);
        if (product as u64) < limit {
            let threshold = limit.wrapping_neg() % limit;
            while (product as u64) < threshold {
                product = self.scaled(limit);
            }
        }
        (product >> 64) as u64
    }

    fn scaled(&mut self, limit: u64) -> u128 {
        u128::from(self.next()) * u128::from(limit)
    }
}
