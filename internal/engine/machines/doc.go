// Package machines has the operators that run a state machine for each key: it emits, decides
// something about its key, sets timers, makes calls, and can be forgotten.
//
// The time for which the state of a key is kept is a life of the key. What a function of the
// machine does is noted in a [Turn], which the operator carries out when the function has
// returned. Start reading at [Machine].
package machines
