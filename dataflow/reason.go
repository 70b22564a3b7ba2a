package dataflow

// NonDet is the written reason why a choice that the runtime makes, such as where a batch
// ends, does not show in the result, or why it may. Every function that exposes such a
// choice takes one, so [Flow.Reasons] lists all nondeterminism of a program.
//
//	slice.Batch(tick, requests, "each request is answered from its own contents")
//
// An untyped constant converts implicitly. A string variable does not compile without a
// conversion. An empty or blank reason panics while the flow is built, and so does a zero
// value from type inference. A good reason names the mechanism ("each call is judged alone,
// so batch boundaries are invisible"); a bad one restates the problem ("batching is fine").
type NonDet string

// A Reason is a place in a program where the result may depend on timing.
type Reason struct {
	Op  string // operator, such as "slice.Batch"
	Pos string // file:line of the call
	Why NonDet
}

// Reasons returns the reasons given in the flow, in order of construction.
func (f *Flow) Reasons() []Reason {
	graphOf(f) // panics if New did not make f
	var all []Reason
	for _, s := range f.locations {
		for _, op := range s.Ops {
			if op.Why != "" {
				all = append(all, Reason{op.Name, op.Pos, NonDet(op.Why)})
			}
		}
	}
	return all
}
