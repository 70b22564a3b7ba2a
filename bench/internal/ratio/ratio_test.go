package ratio

import (
	"os/exec"
	"runtime"
	"testing"
	"time"
)

func TestMeasure(t *testing.T) {
	made, closed := 0, 0
	impl := func(name string, events int) Impl {
		return Impl{Name: name, New: func() Run {
			made++
			var held []byte
			return Run{
				Do: func() int {
					for start := processorTime(false); processorTime(false)-start < 2*time.Millisecond; {
					}
					held = make([]byte, 100*events)
					return events
				},
				Lat:   func() []time.Duration { return []time.Duration{3, 1, 2} },
				Held:  true,
				Close: func() { closed++; runtime.KeepAlive(held) },
			}
		}}
	}
	all := Measure([]Impl{impl("one", 10_000), impl("half as fast", 5_000)}, Options{Rounds: 3})
	if made != 8 || closed != 8 {
		t.Errorf("made %d and closed %d, want 8: a warm-up and three rounds of two", made, closed)
	}
	cpu := func(s Sample) float64 { return s.CPU }
	if r := Between(all[0], all[0], cpu, Divide).Median; r != 1 {
		t.Errorf("ratio of the first to itself = %v, want 1", r)
	}
	if r := Between(all[1], all[0], cpu, Divide).Median; r < 1.2 {
		t.Errorf("ratio of the slow one = %v, want about 2", r)
	}
	if p := Of(all[0], func(s Sample) float64 { return s.P50 }).Median; p != 2 {
		t.Errorf("P50 = %v, want 2", p)
	}
	if h := Of(all[0], func(s Sample) float64 { return s.Held }).Median; h < 50 || h > 200 {
		t.Errorf("Held = %v, want about 100", h)
	}
}

// TestChildren checks that a run can measure child processes, by their CPU time and what they left.
func TestChildren(t *testing.T) {
	impl := Impl{Name: "child", New: func() Run {
		return Run{Children: true, Left: func() float64 { return 500 }, Do: func() int {
			if err := exec.Command("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done").Run(); err != nil {
				t.Fatal(err)
			}
			return 5
		}}
	}}
	s := Measure([]Impl{impl}, Options{Rounds: 1, Cold: true})[0][0]
	if s.CPU < 1e5 {
		t.Errorf("CPU = %v, want the millisecond or more that the child worked", s.CPU)
	}
	if s.Held != 100 {
		t.Errorf("Held = %v, want 100", s.Held)
	}
}

// TestElsewhere checks that a run can bring a sample that another program has measured.
func TestElsewhere(t *testing.T) {
	impl := Impl{Name: "elsewhere", New: func() Run {
		return Run{Sample: func() Sample { return Sample{CPU: 7, Wall: 8} }}
	}}
	s := Measure([]Impl{impl}, Options{Rounds: 1, Cold: true})[0][0]
	if s.CPU != 7 || s.Wall != 8 {
		t.Errorf("sample = %+v, want CPU 7 and Wall 8", s)
	}
}

func TestQuantile(t *testing.T) {
	xs := []float64{5, 1, 4, 2, 3}
	for _, c := range []struct{ q, want float64 }{{0, 1}, {.25, 2}, {.5, 3}, {.75, 4}, {1, 5}} {
		if got := quantile(xs, c.q); got != c.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", xs, c.q, got, c.want)
		}
	}
	if xs[0] != 5 {
		t.Error("quantile sorted its argument")
	}
	if got := quantile(nil, .5); got != 0 {
		t.Errorf("quantile of nothing = %v, want 0", got)
	}
}
