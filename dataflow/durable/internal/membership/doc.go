// Package membership assigns partitions to owners, among any number of processes that share a NATS server and
// do not know each other.
//
//	member, err := membership.Join(ctx, nc, membership.Options{Name: "orders", Partitions: 64})
//	…
//	for {
//		a, err := member.Next(ctx) // which partitions to run from now on
//		…
//	}
//
// There is no leader. Each member keeps a lease, which is a key with a time to live in a key-value bucket, and
// watches the leases of all members. [Owners] computes the owners from the leases, so members that see the same
// leases get the same result. A member is gone when it leaves, when its lease ends, or, much sooner, when its
// connection ends: then nobody answers a probe.
//
// # What is promised
//
//   - Members that see the same leases and suspect nobody agree, and each partition has one owner.
//   - A member that joins or goes moves only the partitions that it gets or had.
//   - A member that refuses a partition ([Member.Refuse]) owns it only while all others refuse it too. Its
//     lease lists what it refuses, so the others agree on the new owner.
//   - A member owns nothing if it has not seen its own lease renewed for the duration of a lease, whatever the
//     cause: no server, a stuck watch, a stopped process. [Member.Owned] looks at the clock, so this needs no
//     goroutine to run first.
//   - A member that was suspected wrongly comes back after a few renewals, more of them each time, and is not
//     suspected again before it has answered a probe.
//
// # What is not promised
//
// That a partition has only one owner at each moment. While views differ, two members may both believe that
// they own a partition, for at most about the duration of a lease. Views differ if a probe found something that
// others have not seen yet, or if a stopped process does not know yet that it was stopped. So what an owner
// writes must be fenced where it is stored. Package journal does that; this package only makes it rare that a
// write is refused there.
//
// # Time
//
// The member counts a lease from before it was sent, and the server from after it was received, each by its own
// monotonic clock, so clocks need not agree. The wall clock only decides which of two members with the same ID
// came later.
package membership
