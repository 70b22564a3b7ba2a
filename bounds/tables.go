package bounds

// The methods below are a type-level function table. They are never called: the
// compiler reads their result types when it infers the type parameter of a
// constraint such as FixedValues. They are unexported so that the package
// documentation shows the table and not forty one-line methods.

func (Bounded) keys() (_ Bounded)          { return }
func (BoundedValue) keys() (_ Unbounded)   { return }
func (RetainedValue) keys() (_ Unbounded)  { return }
func (MonotonicValue) keys() (_ Unbounded) { return }
func (MonotonicKeys) keys() (_ Unbounded)  { return }
func (Unbounded) keys() (_ Unbounded)      { return }

func (Bounded) counted() (_ Bounded)               { return }
func (BoundedValue) counted() (_ MonotonicValue)   { return }
func (RetainedValue) counted() (_ Unbounded)       { return }
func (MonotonicValue) counted() (_ MonotonicValue) { return }
func (MonotonicKeys) counted() (_ MonotonicValue)  { return }
func (Unbounded) counted() (_ Unbounded)           { return }

func (Bounded) mapped() (_ Bounded)              { return }
func (BoundedValue) mapped() (_ BoundedValue)    { return }
func (RetainedValue) mapped() (_ RetainedValue)  { return }
func (MonotonicValue) mapped() (_ MonotonicKeys) { return }
func (MonotonicKeys) mapped() (_ MonotonicKeys)  { return }
func (Unbounded) mapped() (_ Unbounded)          { return }

func (Bounded) filtered() (_ Bounded)             { return }
func (BoundedValue) filtered() (_ BoundedValue)   { return }
func (RetainedValue) filtered() (_ RetainedValue) { return }
func (MonotonicValue) filtered() (_ Unbounded)    { return }
func (MonotonicKeys) filtered() (_ Unbounded)     { return }
func (Unbounded) filtered() (_ Unbounded)         { return }

func (Bounded) final() (_ Bounded)        { return }
func (Unbounded) final() (_ BoundedValue) { return }

func (Bounded) folded() (_ Bounded)         { return }
func (Unbounded) folded() (_ MonotonicKeys) { return }

func (Bounded) foldedGrowing() (_ Bounded)          { return }
func (Unbounded) foldedGrowing() (_ MonotonicValue) { return }

func (Bounded) altered() (_ Bounded)          { return }
func (MonotonicValue) altered() (_ Unbounded) { return }
func (Unbounded) altered() (_ Unbounded)      { return }

// The method names below are read by people: they appear in the compiler's message
// when a bound lacks them.

func (Bounded) valuesNeverChange() (_ Bounded)         { return }
func (BoundedValue) valuesNeverChange() (_ Unbounded)  { return }
func (RetainedValue) valuesNeverChange() (_ Unbounded) { return }

func (Bounded) valuesNeverChangeLater() (_ BoundedValue)        { return }
func (BoundedValue) valuesNeverChangeLater() (_ BoundedValue)   { return }
func (RetainedValue) valuesNeverChangeLater() (_ RetainedValue) { return }

func (Bounded) entriesStay() (_ Bounded)        { return }
func (BoundedValue) entriesStay() (_ Unbounded) { return }

func (Bounded) valuesNeverShrink() (_ Bounded)          { return }
func (BoundedValue) valuesNeverShrink() (_ Unbounded)   { return }
func (MonotonicValue) valuesNeverShrink() (_ Unbounded) { return }

func (Bounded) valueNeverShrinks() (_ Bounded)          { return }
func (MonotonicValue) valueNeverShrinks() (_ Unbounded) { return }

func (RetainedValue) contentMayChange()  {}
func (MonotonicValue) contentMayChange() {}
func (MonotonicKeys) contentMayChange()  {}
func (Unbounded) contentMayChange()      {}

func (BoundedValue) canBeForgotten() (_ RetainedValue)  { return }
func (RetainedValue) canBeForgotten() (_ RetainedValue) { return }
func (MonotonicValue) canBeForgotten() (_ Unbounded)    { return }
func (MonotonicKeys) canBeForgotten() (_ Unbounded)     { return }
func (Unbounded) canBeForgotten() (_ Unbounded)         { return }
