package dataflow

// Proof is the written reason why a function has a property that the compiler cannot see and
// that the result depends on: that a step is commutative, or that a value only grows. A
// [NonDet] admits that timing may show; a Proof says why it cannot.
//
//	dataflow.FoldCommutative(scores, newSet, add, "adding to a set forgets the order")
//
// As with a NonDet, an untyped constant converts implicitly, a string variable does not compile
// without a conversion, and an empty proof panics while the flow is built. A program with a
// wrong proof is wrong. The simulator of package dataflow/sim checks each proof with the values
// of the run.
type Proof string

// A Claim is a place in a program that is right only if its proof is.
type Claim struct {
	Op  string // operator, such as "dataflow.FoldGrowing"
	Pos string // file:line of the call
	Why Proof
}

// Proofs returns the proofs given in the flow, in order of construction. [Flow.Reasons] lists
// the places that depend on timing.
func (f *Flow) Proofs() []Claim {
	graphOf(f) // panics if New did not make f
	var all []Claim
	for _, s := range f.locations {
		for _, op := range s.Ops {
			if op.Proof != "" {
				all = append(all, Claim{op.Name, op.Pos, Proof(op.Proof)})
			}
		}
	}
	return all
}
