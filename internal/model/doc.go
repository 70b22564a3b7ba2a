// Package model evaluates a flow in the slow, obvious way. It is the oracle with which
// the engine is compared.
//
// A [Program] is a list of operators, each of which reads earlier ones. It can be built
// as a flow, using only the functions that users call, and it can be evaluated here. A
// history says what was taken and when each slice ran. For a history the model computes
// what every collection holds at any moment, from scratch, from everything that was taken
// before. It keeps no state, knows no batches, and shares no code with the engine. An
// operator is one function from whole contents to a whole content. It is the same inside
// and outside a slice; only its inputs differ.
//
// # What this catches, and what it does not
//
// The oracle ([Verify]: flow against model) catches a wrong operator: a value that is
// forgotten, kept too long, counted twice or computed from a version that is too old or
// too new, or a slice that runs without new input or does not run although it has some.
// It also catches errors that both sides of a differential would share.
//
// The differential ([Agree]: one history, taken in several ways) catches what depends on
// how the engine was driven: where batches end, whether records wait or the location is
// idle, which interleaving was chosen. Only collections that no slice has touched can be
// compared in this way, since a cut may be visible in the others.
//
// Neither catches a race between goroutines, since one goroutine does everything. Neither
// catches a flow that is wrong only after a failure or when its outputs are not read.
//
// The standing test (TestStanding) runs programs as in production, with goroutines that
// send and read, and checks whether what was recorded and seen was possible. It catches
// what the two others cannot: half a publication, a record that is lost or overtaken, a
// timer or a call that comes too early.
package model
