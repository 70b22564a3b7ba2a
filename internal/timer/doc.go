// Package timer holds indexes of pending timeouts, most of which are cancelled
// before they fire.
//
// A timer is a handle and a deadline. Handles are the caller's, small numbers
// handed out densely, such as the entry numbers of a keyed table: the memory is
// a node for each pending timer and those around it, and setting, cancelling
// and firing allocate nothing else. It is given back when they are gone, but for 1 MiB. Deadlines are int64, nanoseconds since any
// epoch the caller likes; nothing here reads a clock.
//
// [FIFO] serves timeouts of one duration, whose deadlines arrive in order.
// [Wheel] serves any. Both promise the same:
//
//  1. a timer never fires before its deadline, and fires at the first Expire
//     at or after it, also when it was set after its deadline had passed,
//  2. timers fire by deadline, and those of one deadline in the order they were
//     set, to the unit and however far the time jumps,
//  3. fire may set and cancel timers. What it sets counts as if it had been there
//     before: if it is due, it fires within the same Expire, in its order.
//
// So an Expire whose fire always sets a timer that is due does not end.
//
// Setting a handle that is pending moves it, as if it had been cancelled first.
package timer
