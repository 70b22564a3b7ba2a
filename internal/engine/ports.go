package engine

var (
	_ input = (*Inlet[int])(nil)
	_ input = (*KInlet[int, int])(nil)
	_ input = (*answers[int, int, int])(nil)

	_ port     = (*Outlet[int])(nil)
	_ port     = (*KOutlet[int, int])(nil)
	_ port     = (*CellOutlet[int])(nil)
	_ unsent   = (*move[int])(nil)
	_ unsent   = (*kmove[int, int])(nil)
	_ delivery = (*Cycle[int])(nil)
	_ calling  = (*async[int, int, int])(nil)
)
