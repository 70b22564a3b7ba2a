package engine

// stepsArePlanned is not empty if senders that run a location themselves do it with a plan, as
// those of recorded flows do, and not in the form for one record. Tests are run in both ways and
// have to give the same. Only the linker sets it, with -X, so that nothing is compiled again for
// the other way. It is read once for each location, when the location is compiled.
var stepsArePlanned string
