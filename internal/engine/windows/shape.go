package windows

// A Shape says which spans contain a time.
type Shape struct {
	Size, Step, Offset int64
	// Calendar returns the span that contains a time, for a shape whose spans differ in length.
	Calendar func(t int64) (from, to int64)
}

// last returns the latest span that contains t.
func (s Shape) last(t int64) (from, to int64) {
	if s.Calendar != nil {
		return s.Calendar(t)
	}
	r := modulo(modulo(t, s.Step)-modulo(s.Offset, s.Step), s.Step)
	return add(t, -r), add(t, s.Size-r)
}

// one reports whether each time is in exactly one span.
func (s Shape) one() bool { return s.Calendar != nil || s.Size == s.Step }

// modulo returns the remainder of t in [0, n).
func modulo(t, n int64) int64 {
	if t %= n; t < 0 {
		t += n
	}
	return t
}
