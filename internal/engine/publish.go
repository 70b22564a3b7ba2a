package engine

// release ends a step of a live site: it has the driver wake the site at the deadline of a
// timer that the step set, and publishes what the step gave.
func (s *Site) release() {
	if s.rearm {
		s.g.driver.arm(s)
	}
	s.publish()
}

// publish ends a step by handing on what it gave.
//
// It first changes all ports, and unlocks none before all are changed, so that a reader who has seen
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
			p.give()
		}
		more := false
		for _, p := range s.ports {
			more = p.show() || more
		}
		if more {
			for _, p := range s.ports {
				p.wake()
			}
		}
	}
	s.ports = s.ports[:0]
	for _, x := range s.later {
		s.g.driver.deliver(x)
	}
	s.later = s.later[:0]
}
