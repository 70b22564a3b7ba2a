// Package timer holds indexes of pending timeouts, most of which are cancelled
// before they fire.
//
// A timer is a handle and a deadline. The caller chooses the handles: small
// numbers that are assigned densely, such as the entry numbers of a keyed table.
// The memory is a node for each pending timer and those around it; setting,
// cancelling and firing allocate nothing else. It is released when the timers are
// gone, except 1 MiB. Deadlines are int64 nanoseconds since any epoch; nothing
// here reads a clock.
//
// [FIFO] is for timeouts of one duration, whose deadlines arrive in order.
// [Wheel] is for any. Both guarantee the same:
//
//  1. a timer never fires before its deadline. It fires at the first Expire at or
//     after the deadline, even if it was set after its deadline had passed,
//  2. timers fire in the order of their deadlines, and timers with the same
//     deadline in the order in which they were set, exactly, however far the time
//     jumps,
//  3. fire may set and cancel timers. A timer that it sets is treated as if it
//     had been set before: if it is due, it fires within the same Expire, in its
//     order.
//
// So an Expire whose fire always sets a timer that is due does not end.
//
// Setting a handle that is pending moves it, as if it had been cancelled first.
package timer
