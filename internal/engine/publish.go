package engine

// Release ends a step of a live location: it has the driver wake the location at the deadline of a
// timer that the step set, and publishes what the step gave.
func (s *Location) Release() {
	if s.Rearm {
		s.Graph.Driver.Arm(s)
	}
	s.Publish()
}

// Publish ends a step by handing on what it gave.
//
// It first changes all ports, and unlocks none before all are changed, so that a reader who has seen
// the step at one port sees it at every other one. Then it tells other locations, cycles and
// asynchronous calls, so that what follows from the step is never seen before the step.
//
// Only the holder of the token, or the feeder of a remote graph, locks more than one
// port at a time, so the order of locking does not matter. While the ports are locked it
// waits for nobody but readers, which hold one port each and not for long.
func (s *Location) Publish() {
	if len(s.Ports) == 1 {
		s.Ports[0].Release()
	} else {
		for _, p := range s.Ports {
			p.Give()
		}
		more := false
		for _, p := range s.Ports {
			more = p.Show() || more
		}
		if more {
			for _, p := range s.Ports {
				p.Wake()
			}
		}
	}
	s.Ports = s.Ports[:0]
	for _, x := range s.Later {
		s.Graph.Driver.Deliver(x)
	}
	s.Later = s.Later[:0]
}
