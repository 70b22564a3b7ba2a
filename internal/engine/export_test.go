package engine

// EachTimer calls f with each operator of s that has timers, and with a pointer to whether it
// fires one deadline at a time.
func EachTimer(s *Location, f func(op *Op, stepwise *bool)) {
	for i := range s.Timers {
		f(s.Timers[i].op, &s.Timers[i].stepwise)
	}
}

// SetNow sets the time of the step that a test simulates.
func SetNow(s *Location, now int64) { s.now = now }

// FireUntil fires all timers that are due at now.
func FireUntil(s *Location, now int64) { s.fireUntil(now) }
