// Package machines contains the operators that run a state machine for each key: it emits, decides something about its key, sets
// timers, makes calls, and can be forgotten.
//
// A life of a key is the time for which its state is kept. What a function of the machine does is recorded in a [Turn], which the
// operator carries out when the function has returned. Start reading at [Machine].
package machines
