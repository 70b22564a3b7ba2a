package dataflow

// Proof is the written reason why a function has a property that the compiler cannot
// see and that the result depends on: that a step is commutative, or that a value
// only grows. Unlike a [NonDet] it does not admit that timing shows, it says why it
// cannot.
//
//	dataflow.FoldCommutative(scores, newSet, add, "adding to a set forgets the order")
//
// As with a NonDet, an untyped constant converts by itself, a string variable does not
// compile without a conversion, and an empty proof panics while the flow is built. A wrong proof is a
// wrong program. The simulator of package dataflow/sim checks each one with the values that come.
type Proof string

// A Claim is a place in a program that is right only if its proof is.
type Claim struct {
	Op  string // operator, such as "dataflow.FoldGrowing"
	Pos string // file:line of the call
	Why Proof
}

// Proofs returns the proofs given in the flow, in order of construction. What depends
// on timing is listed by [Flow.Reasons].
func (f *Flow) Proofs() []Claim {
	graphOf(f) // which refuses what New did not make
	var all []Claim
	for _, s := range f.sites {
		for _, op := range s.Ops {
			if op.Proof != "" {
				all = append(all, Claim{op.Name, op.Pos, Proof(op.Proof)})
			}
		}
	}
	return all
}
