package jobs

import "github.com/millrace/millrace/bench/internal/ratio"

// A Job is one piece of work. The others are compared with the first implementation,
// which is how one would write the job by hand.
type Job struct {
	Name    string // such as "Chain"
	Params  string // such as "data=random/batch=256"
	Impls   []ratio.Impl
	Targets []Target

	// CPU measures processor time instead of wall time, so that other work on the
	// machine does not count. It suits jobs on one goroutine, and jobs that keep every
	// processor busy.
	CPU bool
	// Rounds is the number of rounds that is sufficient. Zero means the requested
	// number.
	Rounds int
	// Plot names the plot of growth in which the job is a point, and X is its position.
	Plot string
	X    float64
	// Slow excludes the job from the regression check.
	Slow bool
}

// Label returns the job's name and parameters, as go test prints them.
func (j Job) Label() string { return j.Name + "/" + j.Params }

// Time returns the job's time per event.
func (j Job) Time(s ratio.Sample) float64 {
	if j.CPU {
		return s.CPU
	}
	return s.Wall
}

// A Target is the goal for an implementation.
type Target struct {
	What   What
	Of     string  // the implementation; empty means millrace
	To     string  // the implementation it is compared to; empty means the first
	AtMost float64 // the goal
	// Bound is what the regression check allows. Zero means twice the goal.
	Bound float64
}

// What is the figure that a target concerns.
type What int

const (
	Ratio    What = iota // time per event, as a ratio
	P50Ratio             // median latency, as a ratio
	P99                  // latency, ns
	More                 // time per event in addition to the other's, ns
	Held                 // bytes kept per event
)

// index returns the index of the job's implementation with a name, or with the name
// otherwise if the name is empty.
func (j Job) index(name, otherwise string) int {
	if name == "" {
		name = otherwise
	}
	for i, impl := range j.Impls {
		if impl.Name == name {
			return i
		}
	}
	panic("jobs: " + j.Label() + " has no implementation " + name)
}

// Judge returns the measured value for a target, from one list of samples for each
// implementation.
func (j Job) Judge(t Target, samples [][]ratio.Sample) ratio.Spread {
	of := samples[j.index(t.Of, "millrace")]
	to := samples[j.index(t.To, j.Impls[0].Name)]
	switch t.What {
	case P50Ratio:
		return ratio.Between(of, to, func(s ratio.Sample) float64 { return s.P50 }, ratio.Divide)
	case P99:
		return ratio.Of(of, func(s ratio.Sample) float64 { return s.P99 })
	case More:
		return ratio.Between(of, to, j.Time, ratio.Subtract)
	case Held:
		return ratio.Of(of, func(s ratio.Sample) float64 { return s.Held })
	}
	return ratio.Between(of, to, j.Time, ratio.Divide)
}

// Allowed returns what the regression check allows for a job with these samples. For a
// target of kind [More], which is a time and not a ratio, it allows at least one and a
// half times the time of the compared implementation, so that it also fits slow
// machines.
func (j Job) Allowed(t Target, samples [][]ratio.Sample) float64 {
	allowed := 2 * t.AtMost
	if t.Bound != 0 {
		allowed = t.Bound
	}
	if t.What == More {
		without := ratio.Of(samples[j.index(t.To, j.Impls[0].Name)], j.Time)
		allowed = max(allowed, 1.5*without.Median)
	}
	return allowed
}
