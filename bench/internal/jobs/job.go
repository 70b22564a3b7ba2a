package jobs

import "github.com/millrace/millrace/bench/internal/ratio"

// A Job is one piece of work. The first implementation is the one to which the others
// are compared: as one would write it by hand.
type Job struct {
	Name    string // such as "Chain"
	Params  string // such as "data=random/batch=256"
	Impls   []ratio.Impl
	Targets []Target

	// CPU counts processor time instead of time on the wall. It fits jobs on one
	// goroutine, and those that keep every processor busy: what others do on the
	// machine is left out.
	CPU bool
	// Rounds is how many rounds are enough. Zero means as many as are asked for.
	Rounds int
	// Plot and X say in which plot of growth the job is a point, and where.
	Plot string
	X    float64
	// Slow jobs are no part of the regression check.
	Slow bool
}

// Label is the job's name and parameters, as go test prints them.
func (j Job) Label() string { return j.Name + "/" + j.Params }

// Time is what the job counts for an event.
func (j Job) Time(s ratio.Sample) float64 {
	if j.CPU {
		return s.CPU
	}
	return s.Wall
}

// A Target is what an implementation aims at.
type Target struct {
	What   What
	Of     string  // the implementation; empty means millrace
	To     string  // what it is compared to; empty means the first
	AtMost float64 // the aim
	// Bound is what the regression check lets pass. Zero means twice the aim.
	Bound float64
}

// What is a figure that a target is about.
type What int

const (
	Ratio    What = iota // time per event, as a ratio
	P50Ratio             // median latency, as a ratio
	P99                  // latency, ns
	More                 // time per event beyond that of the other, ns
	Held                 // bytes kept per event
)

// Of returns the job's implementation with a name.
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

// Judge returns how a target was met by samples, one list for each implementation.
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

// Allowed is what the regression check lets pass, of a job with these samples. What is a
// time and not a ratio of two may be longer on a machine on which the form that it is
// counted from takes long: half as long again as that.
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
