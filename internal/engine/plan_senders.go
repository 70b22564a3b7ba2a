//go:build !millraceplans

package engine

// stepsArePlanned says that senders that run a location themselves do it with a plan, as
// those of recorded flows do, and not in the form for one record. Tests are run in both
// ways, this one with the build tag millraceplans, and have to give the same.
const stepsArePlanned = false
