// Package ratio compares implementations of one job on a machine that is not quiet.
//
// Every round runs each implementation once, back to back, in a rotated order. Ratios
// are taken within a round, so whatever slows the whole round down cancels out. The
// reported value is the median over the rounds.
package ratio

import (
	"runtime"
	"slices"
	"time"
)

// An Impl is one implementation of a job.
type Impl struct {
	Name string
	New  func() Run // makes a new one; not measured
}

// A Run is an implementation that is ready to work once.
type Run struct {
	Do    func() int             // does the job and returns the number of events
	Lat   func() []time.Duration // how long each event took, if Do measured that
	Held  bool                   // measure the memory that Do leaves behind
	Left  func() float64         // instead of that memory: the bytes that Do has left elsewhere
	Close func()                 // releases what New made; not measured; may be nil

	Children bool // include the processor time of processes that Do waits for

	// Sample, if not nil, runs another program, which does the job and measures itself. The
	// other fields are not used.
	Sample func() Sample
}

// A Sample is the measurement of one run.
type Sample struct {
	Wall   float64 // ns per event
	CPU    float64 // ns of processor time per event, of all goroutines together
	Allocs float64 // per event
	Bytes  float64 // allocated per event
	P50    float64 // ns; 0 if the run has no latencies, like P99
	P99    float64 // ns
	Held   float64 // bytes per event that the run left in memory; 0 if not measured
	Others float64 // processors that the rest of the machine used in the meantime
}

// Options say how to compare.
type Options struct {
	Rounds int // Zero means 9.
	// Patience is how often a run is repeated while other processes use more than a
	// quarter of a processor. Zero means never.
	Patience int
	// Cold leaves out the round that only warms up.
	Cold bool
}

// Measure runs all of impls in turns and returns the samples of each, by round.
func Measure(impls []Impl, opts Options) [][]Sample {
	rounds := opts.Rounds
	if rounds == 0 {
		rounds = 9
	}
	n := len(impls)
	all := make([][]Sample, n)
	first := -1 // only warms up
	if opts.Cold {
		first = 0
	}
	for r := first; r < rounds; r++ {
		for k := range impls {
			i := (k + max(r, 0)) % n
			s := measure(impls[i])
			if r < 0 {
				continue
			}
			for try := 0; try < opts.Patience && s.Others > .25; try++ {
				s = measure(impls[i])
			}
			all[i] = append(all[i], s)
		}
	}
	return all
}

func measure(impl Impl) Sample {
	run := impl.New()
	if run.Sample != nil {
		return elsewhere(run.Sample)
	}
	var before, after runtime.MemStats
	runtime.GC()
	if run.Held {
		runtime.GC() // twice, because of finalizers and pools
	}
	runtime.ReadMemStats(&before)
	machine := busy()
	processor, start := processorTime(run.Children), time.Now()
	events := float64(run.Do())
	used, took := processorTime(run.Children)-processor, time.Since(start)
	machine = busy() - machine
	runtime.ReadMemStats(&after)
	s := Sample{
		Wall:   float64(took) / events,
		CPU:    float64(used) / events,
		Allocs: float64(after.Mallocs-before.Mallocs) / events,
		Bytes:  float64(after.TotalAlloc-before.TotalAlloc) / events,
		Others: max(0, float64(machine-used)/float64(took)),
	}
	if run.Held {
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&after)
		s.Held = max(0, float64(after.HeapAlloc)-float64(before.HeapAlloc)) / events
	}
	if run.Left != nil {
		s.Held = run.Left() / events
	}
	if run.Lat != nil {
		lat := run.Lat()
		slices.Sort(lat)
		s.P50, s.P99 = float64(lat[len(lat)/2]), float64(lat[len(lat)*99/100])
	}
	if run.Close != nil {
		run.Close()
	}
	return s
}

// elsewhere takes a sample that another program measures.
func elsewhere(sample func() Sample) Sample {
	machine, processor, start := busy(), processorTime(true), time.Now()
	s := sample()
	used, took := processorTime(true)-processor, time.Since(start)
	s.Others = max(0, float64(busy()-machine-used)/float64(took))
	return s
}
