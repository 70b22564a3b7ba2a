package chaos

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Durations collects the durations that several goroutines measure.
type durations struct {
	mu  sync.Mutex
	all []time.Duration
}

func (d *durations) add(x time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, x)
}

// at returns the q-quantile of the durations.
func (d *durations) at(q float64) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == 0 {
		return 0
	}
	slices.Sort(d.all)
	return d.all[min(int(float64(len(d.all))*q), len(d.all)-1)]
}

func (d *durations) String() string {
	round := func(x time.Duration) time.Duration { return x.Round(max(x/200, time.Microsecond)) }
	p50, p99, most := d.at(0.5), d.at(0.99), d.at(1)
	return fmt.Sprintf("n=%d p50=%v p99=%v max=%v", len(d.all), round(p50), round(p99), round(most))
}
