package engine

// A port is an outlet that goroutines outside the site read.
type port interface {
	outlet
	lock()
	give()   // make what the step gave visible; called between lock and unlock
	unlock() // may wake readers
	wake()   // wake readers that were given something, without the lock
	forget() // drop what the step gave
}

// publish ends a step by handing on what it gave.
//
// It first changes all ports while it holds their locks, so that a reader who has seen
// the step at one port sees it at every other one. Then it tells other sites, cycles and
// asynchronous calls, so that what follows from the step is never seen before the step.
//
// Only the holder of the token, or the feeder of a remote graph, locks more than one
// port at a time, so the order of locking does not matter. While the ports are locked it
// waits for nobody but readers, which hold one port each and not for long.
func (s *Site) publish() {
	if len(s.ports) == 1 {
		s.ports[0].release()
	} else {
		for _, p := range s.ports {
			p.lock()
		}
		for _, p := range s.ports {
			p.give()
		}
		for _, p := range s.ports {
			p.unlock()
		}
		for _, p := range s.ports {
			p.wake()
		}
	}
	s.ports = s.ports[:0]
	for _, out := range s.later {
		out.release()
	}
	s.later = s.later[:0]
}
