// Package membership says who owns which partition, among any number of processes
// that share a NATS server and know nothing of each other.
//
//	member, err := membership.Join(ctx, nc, membership.Options{Name: "orders", Partitions: 64})
//	…
//	for {
//		a, err := member.Next(ctx) // which partitions to run from now on
//		…
//	}
//
// Nobody leads. Each member keeps a lease, a key with a time to live in a key-value
// bucket, and watches the leases of all; [Owners] then says who owns what, and members
// who see the same leases say the same. A member is gone when it leaves, when its lease
// ends, or, much sooner, when its connection does: nobody answers a probe any more.
//
// # What is promised
//
//   - Members that see the same leases and suspect nobody agree, and each partition has
//     one owner.
//   - A member that joins or goes moves only the partitions it gets or had.
//   - A member that refuses a partition ([Member.Refuse]) owns it only while all others refuse it
//     too. Its lease says what it refuses, so the others agree on who gets that.
//   - A member owns nothing when it has not seen its own lease renewed for as long as a
//     lease lasts, whatever the cause: no server, a watch that is stuck, a stopped process.
//     [Member.Owned] looks at the clock, so this needs no goroutine to run first.
//   - Who is suspected wrongly comes back after a few renewals, later each time, and is not
//     suspected again before it has answered a probe.
//
// # What is not promised
//
// That a partition has only one owner at each moment. While views differ (a probe saw
// something that others did not see yet, a stopped process does not know yet that it
// was) two members may both take a partition for theirs, for at most about a lease. What
// an owner does must be fenced where it is kept: package journal does that, and this
// package only makes it rare that somebody runs into the fence.
//
// # Time
//
// A lease is counted by the member from before it was sent and by the server from after
// it was received, each by its own monotonic clock, so clocks need not agree. The wall
// clock is used only to tell which of two members with the same ID came later.
package membership
