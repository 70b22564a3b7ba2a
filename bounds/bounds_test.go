package bounds

// Each line of the variable block is one cell of the tables in the package
// documentation. The test passes if the file compiles.

func keys[B Keyed[Out], Out Stream](B) (_ Out)                     { return }
func counted[B Counted[Out], Out Singleton](B) (_ Out)             { return }
func mapped[B Mapped[Out], Out KeyedSingleton](B) (_ Out)          { return }
func filtered[B Filtered[Out], Out KeyedSingleton](B) (_ Out)      { return }
func final[B Final[Out], Out KeyedSingleton](B) (_ Out)            { return }
func folded[B Folded[Out], Out KeyedSingleton](B) (_ Out)          { return }
func growing[B FoldedGrowing[Out], Out Aggregate](B) (_ Out)       { return }
func altered[B Altered[Out], Out Stream](B) (_ Out)                { return }
func fixed[B FixedValues[Out], Out Stream](B) (_ Out)              { return }
func neverShrinks[B GrowingValues[Out], Out Stream](B) (_ Out)     { return }
func valueNeverShrinks[B Growing[Out], Out Stream](B) (_ Out)      { return }
func later[B FixedValuesLater[Out], Out KeyedSingleton](B) (_ Out) { return }
func permanent[B Permanent[Out], Out Stream](B) (_ Out)            { return }
func changing[B Changing](B) (_ B)                                 { return }
func forgotten[B Forgotten[Out], Out KeyedSingleton](B) (_ Out)    { return }
func complete[B Complete](B) (_ B)                                 { return }
func mapTwice[B Mapped[Out], Out Mapped[Out]](b B) (_ Out)         { return mapped(mapped(b)) }
func filterTwice[B Filtered[Out], Out Filtered[Out]](b B) (_ Out) {
	return filtered(filtered(b))
}
func streamAsSingleton[B Stream](b B) (_ B)       { return isSingleton(b) }
func aggregateAsSingleton[B Aggregate](b B) (_ B) { return isSingleton(b) }
func aggregateAsKeyed[B Aggregate](b B) (_ B)     { return isKeyedSingleton(b) }
func isSingleton[B Singleton](B) (_ B)            { return }
func isKeyedSingleton[B KeyedSingleton](B) (_ B)  { return }

var (
	_ Bounded   = keys(Bounded{})
	_ Unbounded = keys(BoundedValue{})
	_ Unbounded = keys(RetainedValue{})
	_ Unbounded = keys(MonotonicValue{})
	_ Unbounded = keys(MonotonicKeys{})
	_ Unbounded = keys(Unbounded{})

	_ Bounded        = counted(Bounded{})
	_ MonotonicValue = counted(BoundedValue{})
	_ Unbounded      = counted(RetainedValue{})
	_ MonotonicValue = counted(MonotonicValue{})
	_ MonotonicValue = counted(MonotonicKeys{})
	_ Unbounded      = counted(Unbounded{})

	_ Bounded       = mapped(Bounded{})
	_ BoundedValue  = mapped(BoundedValue{})
	_ RetainedValue = mapped(RetainedValue{})
	_ MonotonicKeys = mapped(MonotonicValue{})
	_ MonotonicKeys = mapped(MonotonicKeys{})
	_ Unbounded     = mapped(Unbounded{})

	_ Bounded       = filtered(Bounded{})
	_ BoundedValue  = filtered(BoundedValue{})
	_ RetainedValue = filtered(RetainedValue{})
	_ Unbounded     = filtered(MonotonicValue{})
	_ Unbounded     = filtered(MonotonicKeys{})
	_ Unbounded     = filtered(Unbounded{})

	_ Bounded      = final(Bounded{})
	_ BoundedValue = final(Unbounded{})

	_ Bounded       = folded(Bounded{})
	_ MonotonicKeys = folded(Unbounded{})

	_ Bounded        = growing(Bounded{})
	_ MonotonicValue = growing(Unbounded{})

	_ Bounded   = altered(Bounded{})
	_ Unbounded = altered(MonotonicValue{})
	_ Unbounded = altered(Unbounded{})

	_ Bounded   = fixed(Bounded{})
	_ Unbounded = fixed(BoundedValue{})
	_ Unbounded = fixed(RetainedValue{})

	_ Bounded   = neverShrinks(Bounded{})
	_ Unbounded = neverShrinks(BoundedValue{})
	_ Unbounded = neverShrinks(MonotonicValue{})

	_ Bounded   = valueNeverShrinks(Bounded{})
	_ Unbounded = valueNeverShrinks(MonotonicValue{})

	_ MonotonicValue = changing(MonotonicValue{})
	_ RetainedValue  = changing(RetainedValue{})
	_ MonotonicKeys  = changing(MonotonicKeys{})
	_ Unbounded      = changing(Unbounded{})

	_ Bounded = complete(Bounded{})

	_ RetainedValue = forgotten(BoundedValue{})
	_ RetainedValue = forgotten(RetainedValue{})
	_ Unbounded     = forgotten(MonotonicValue{})
	_ Unbounded     = forgotten(MonotonicKeys{})
	_ Unbounded     = forgotten(Unbounded{})

	_ BoundedValue  = later(Bounded{})
	_ BoundedValue  = later(BoundedValue{})
	_ RetainedValue = later(RetainedValue{})

	_ Bounded   = permanent(Bounded{})
	_ Unbounded = permanent(BoundedValue{})

	// Mapping twice has the bound of mapping once, and so has filtering.
	_ MonotonicKeys = mapTwice(MonotonicValue{})
	_ Unbounded     = filterTwice(MonotonicValue{})

	// The bound of a stream is the bound of some singleton.
	_ Unbounded = streamAsSingleton(Unbounded{})

	// The bound of a growing aggregate fits a singleton and a keyed singleton.
	_ MonotonicValue = aggregateAsSingleton(MonotonicValue{})
	_ MonotonicValue = aggregateAsKeyed(MonotonicValue{})
)
