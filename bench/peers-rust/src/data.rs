//! The input of the jobs: the same as in Go, element by element. The tests compare digests, which
//! a test of the Go jobs checks as well.

use crate::pcg::Pcg;

/// Elements of a chain's input. The chain takes it `CHAIN_BLOCKS` times.
pub const CHAIN_BLOCK: usize = 131_072;
pub const CHAIN_BLOCKS: usize = 10;

/// Elements of `First`: some keys again and again, or keys that all differ.
pub const FIRST_EVENTS: usize = 2_000_000;
pub const DISTINCT_KEYS: usize = 5_000_000;

pub const REQUESTS: usize = 1_000_000;
pub const REPLICAS: u8 = 5;
pub const QUORUM: u32 = 3;

pub const LOOKUPS: usize = 1_000_000;

/// A key of two words: a client and its sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    pub client: u64,
    pub seq: u64,
}

impl Request {
    fn numbered(i: usize) -> Self {
        Request {
            client: i as u64 % 1000,
            seq: i as u64 / 1000,
        }
    }
}

/// One replica's answer to a request.
#[derive(Clone, Copy)]
pub struct Vote {
    pub request: Request,
    pub replica: u8,
}

pub fn predictable() -> Vec<i64> {
    (0..CHAIN_BLOCK as i64).collect()
}

pub fn random() -> Vec<i64> {
    let mut pcg = Pcg::new(1, 2);
    (0..CHAIN_BLOCK).map(|_| (pcg.next() >> 1) as i64).collect()
}

pub fn word_keys(n: usize) -> Vec<u64> {
    let mut pcg = Pcg::new(7, 9);
    (0..n).map(|_| pcg.next()).collect()
}

pub fn request_keys(n: usize) -> Vec<Request> {
    (0..n).map(Request::numbered).collect()
}

/// Texts of 16 to 36 hexadecimal digits. They are never freed, so that an element is a pointer and a
/// length, as in Go, without a count of references.
pub fn text_keys(n: usize) -> Vec<&'static str> {
    let mut pcg = Pcg::new(7, 9);
    let mut text = || {
        let length = 16 + pcg.below(21);
        let digits = (0..length).map(|_| char::from(b"0123456789abcdef"[pcg.below(16) as usize]));
        &*digits.collect::<String>().leak()
    };
    (0..n).map(|_| text()).collect()
}

/// Draws elements from some keys.
pub fn drawn<K: Copy>(keys: &[K]) -> Vec<K> {
    let mut pcg = Pcg::new(8, 9);
    let mut any = || keys[pcg.below(keys.len() as u64) as usize];
    (0..FIRST_EVENTS).map(|_| any()).collect()
}

/// The votes for all requests, mixed so that some requests are in flight at the same time.
pub fn votes(in_flight: usize) -> Vec<Vote> {
    let mut pcg = Pcg::new(3, 4);
    let ballots = |i| {
        (0..REPLICAS).map(move |replica| Vote {
            request: Request::numbered(i),
            replica,
        })
    };
    let mut all: Vec<Vote> = (0..REQUESTS).flat_map(ballots).collect();
    for i in 0..all.len() {
        let j = i + pcg.below(u64::from(REPLICAS) * in_flight as u64) as usize;
        all.swap(i, j.min(REQUESTS * usize::from(REPLICAS) - 1));
    }
    all
}

/// Key `i` of a table of prices. The price is `i`.
pub fn spread(i: u64) -> u64 {
    0x9e3779b97f4a7c15_u64.wrapping_mul(i)
}

/// The keys that are looked up in a table, and the sum of their prices.
pub fn asked(keys: u64) -> (Vec<u64>, u64) {
    let mut pcg = Pcg::new(5, 6);
    let prices: Vec<u64> = (0..LOOKUPS).map(|_| pcg.below(keys)).collect();
    let sum = prices.iter().sum();
    (prices.into_iter().map(spread).collect(), sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums up the words of an input, as the test of the jobs in Go does.
    fn digest(words: impl Iterator<Item = u64>) -> u64 {
        words.fold(0, |d, w| {
            let d = (d ^ w).wrapping_mul(0x100000001b3);
            d ^ d >> 29
        })
    }

    fn text_words(text: &str) -> impl Iterator<Item = u64> {
        std::iter::once(text.len() as u64).chain(text.bytes().map(u64::from))
    }

    #[test]
    fn digests() {
        let ints = |ints: Vec<i64>| digest(ints.into_iter().map(|i| i as u64));
        let requests = drawn(&request_keys(1000));
        let votes = votes(1000);
        let got = [
            ("chain predictable", ints(predictable())),
            ("chain random", ints(random())),
            (
                "first uint64 1000",
                digest(drawn(&word_keys(1000)).into_iter()),
            ),
            (
                "first string 1000",
                digest(drawn(&text_keys(1000)).into_iter().flat_map(text_words)),
            ),
            (
                "first struct 1000",
                digest(requests.iter().flat_map(|r| [r.client, r.seq])),
            ),
            (
                "votes 1000",
                digest(
                    votes
                        .iter()
                        .flat_map(|v| [v.request.client, v.request.seq, u64::from(v.replica)]),
                ),
            ),
            ("asked 1000", digest(asked(1000).0.into_iter())),
            ("asked 1000000", digest(asked(1_000_000).0.into_iter())),
        ];
        let got: String = got
            .map(|(name, digest)| format!("{name} {digest:016x}\n"))
            .concat();
        assert_eq!(got, include_str!("../digests.txt"));
    }
}
