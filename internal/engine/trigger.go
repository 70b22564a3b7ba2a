package engine

// A trigger is how a new version of a snapshot runs its slice.
type trigger struct {
	region  *Region
	passive bool
}

func (t *trigger) pull() {
	if !t.passive {
		t.region.news = true
	}
}

// disarm makes a new version no reason to run the slice.
func (t *trigger) disarm() {
	if !t.passive {
		t.passive = true
		t.region.ins--
	}
}

func (t *trigger) makePassive(op *Op) {
	if t == nil {
		Misuse(op.Name, "the collection is no snapshot: only what slice.Snapshot, SnapshotOptional or SnapshotEntries returned can be passive")
	}
	t.disarm()
}

// MakePassive makes a change of what c is a snapshot of no reason to run the slice.
func (c *Cell[T]) MakePassive(op *Op) {
	c.trigger.makePassive(op)
	op.passes(&c.Head)
}

// MakePassive makes a change of what n is a snapshot of no reason to run the slice.
func (n *KNode[K, V]) MakePassive(op *Op) {
	n.trigger.makePassive(op)
	op.passes(&n.Head)
}
