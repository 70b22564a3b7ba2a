package host

import "sync/atomic"

// Stats are what happened so far and what there is now, see [Runtime.Stats].
type Stats struct {
	Counts                     // of everything
	Toolsets map[string]Counts // by the base URL of the tool server
	Others   Counts            // of no tool server

	Prompts int    // that this process has shown to users, and that are open
	Memory  Filled // of [Bounds].Memory, as the garbage collector found it last
	Bodies  Filled // of [Bounds].Bodies
}

// Filled is how much of a bound is used.
type Filled struct {
	Bytes int64
	Bound int64 // zero is none
}

// Counts count events. Of those that concern calls resolved a long time ago, some
// are counted in total only and for no toolset.
type Counts struct {
	Calls    uint64 // calls made, rejected ones included
	Attempts uint64 // invocations posted, retries included
	Results  uint64 // calls that a tool resolved
	Failures uint64 // calls that were resolved otherwise

	Duplicates uint64 // dropped: a second result
	Late       uint64 // dropped: arrived after the call was resolved otherwise
	Repeated   uint64 // dropped: a detour that was open already, an answer to one that was not

	Malformed uint64 // callbacks refused for what they say: 400, 413, 415
	Forged    uint64 // callbacks refused for where they were posted: 403, 404
	Busy      uint64 // callbacks put off: 503

	Views  uint64 // view_update messages handed to the surface
	Events uint64 // subscription_event messages; of these,
	// Unsubscribed were dropped because the call had no subscription, or not any more. It
	// counts attempts to cancel such a subscription too.
	Unsubscribed uint64

	LeftOut uint64 // subscription_event messages that were left out: more than is taken in

	Forwarded uint64 // callbacks handed on to the host where their session lives now
}

// A counter names one field of [Counts].
type counter int

const (
	nCalls counter = iota
	nAttempts
	nResults
	nFailures
	nDuplicates
	nLate
	nRepeated
	nMalformed
	nForged
	nBusy
	nViews
	nEvents
	nUnsubscribed
	nForwarded
	nLeftOut
	counterCount
)

type counters [counterCount]atomic.Uint64

func (c *counters) read() Counts {
	return Counts{
		Calls: c[nCalls].Load(), Attempts: c[nAttempts].Load(),
		Results: c[nResults].Load(), Failures: c[nFailures].Load(),
		Duplicates: c[nDuplicates].Load(), Late: c[nLate].Load(), Repeated: c[nRepeated].Load(),
		Malformed: c[nMalformed].Load(), Forged: c[nForged].Load(), Busy: c[nBusy].Load(),
		Views: c[nViews].Load(), Events: c[nEvents].Load(), Unsubscribed: c[nUnsubscribed].Load(),
		Forwarded: c[nForwarded].Load(), LeftOut: c[nLeftOut].Load(),
	}
}

// count adds one to a counter, in total and for a server or, if that is nil, for none.
func (rt *Runtime) count(s *server, n counter) {
	rt.counters[n].Add(1)
	if s != nil {
		s.counters[n].Add(1)
	} else {
		rt.others[n].Add(1)
	}
}

// Stats returns what was counted since the runtime started, and what there is now. The figures may be a
// moment apart.
func (rt *Runtime) Stats() Stats {
	st := Stats{
		Counts: rt.counters.read(), Toolsets: make(map[string]Counts, len(rt.servers)), Others: rt.others.read(),
		Prompts: rt.prompts.len(), Memory: Filled{rt.memory.live(), rt.memory.limit}, Bodies: Filled{rt.bodies.Used(), rt.opts.Bounds.Bodies},
	}
	for _, s := range rt.servers {
		st.Toolsets[s.base] = s.counters.read()
	}
	return st
}
