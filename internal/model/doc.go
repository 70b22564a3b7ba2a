// Package model evaluates a flow the slow obvious way: it is the oracle that the
// engine is compared with.
//
// A [Program] is a list of operators, each of which reads earlier ones. It can be
// built as a flow, with nothing but the functions that users call, and it can be
// evaluated here: for a history, which says what was taken and when each slice ran,
// the model computes what every collection holds at any moment from all that was
// taken before it, from scratch. It keeps no state, knows no batches, and shares no
// code with the engine. An operator is one function from whole contents to a whole
// content, and is the same inside a slice and outside of it: what is different there
// is only what it is given.
//
// # What is caught here, and what is not
//
// The oracle ([Verify]: flow against model) catches a wrong operator: a value that is
// forgotten, kept too long, counted twice or computed from a version that is too old
// or too new, a slice that runs without news or does not run although it has some.
// It also catches what both sides of a differential would have in common.
//
// The differential ([Agree]: one history, taken in several ways) catches what depends
// on how the engine was driven: where batches end, whether records wait or the
// location is idle, which interleaving was chosen. Only collections that no slice has
// touched can be compared that way, since a cut may show in the others.
//
// Neither catches a race between goroutines, since one goroutine does everything, nor
// a flow that is wrong only after a failure or when its outputs are not read.
//
// The standing test (TestStanding) runs programs in production, with goroutines that send
// and read, and asks whether what was recorded and seen was possible. It catches what the
// two others cannot: half a publication, a record that is lost or overtaken, a timer or a
// call that comes too early.
package model
