// Package results stores samples in the format of go test -bench, one line for each
// run of an implementation, so that benchstat can read them.
//
//	go tool benchstat -col /impl results/samples.txt
package results

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/millrace/millrace/bench/internal/jobs"
	"github.com/millrace/millrace/bench/internal/ratio"
)

// Machine says where and when samples were taken. Rust has the versions of rustc and crates, or is
// empty if no program in Rust ran.
type Machine struct{ Go, Platform, Processors, Processor, Date, Rust string }

// field is a field of a machine and the name that it has in a file.
type field struct {
	key string
	of  *string
}

func (m *Machine) fields() []field {
	return []field{{"go", &m.Go}, {"platform", &m.Platform}, {"processors", &m.Processors}, {"cpu", &m.Processor}, {"date", &m.Date}, {"rust", &m.Rust}}
}

// String returns the machine in one line, without Rust.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %s, %s processors (%s), %s", m.Go, m.Platform, m.Processors, m.Processor, m.Date)
}

// A Set is the samples of jobs by label.
type Set struct{ samples map[string]taken }

// taken is the samples of one job by implementation, and where they were taken.
type taken struct {
	machine Machine
	impls   map[string][]ratio.Sample
}

// NewSet returns an empty set.
func NewSet() *Set { return &Set{samples: make(map[string]taken)} }

// Machine returns where and when the samples of a job were taken.
func (s *Set) Machine(job jobs.Job) Machine { return s.samples[job.Label()].machine }

// Of returns the samples of a job, one list for each implementation. It reports false
// if some are missing.
func (s *Set) Of(job jobs.Job) ([][]ratio.Sample, bool) {
	all := make([][]ratio.Sample, len(job.Impls))
	for i, impl := range job.Impls {
		if all[i] = s.samples[job.Label()].impls[impl.Name]; len(all[i]) == 0 {
			return nil, false
		}
	}
	return all, len(all) > 0
}

// Add sets the samples of a job, which a machine has taken.
func (s *Set) Add(m Machine, job jobs.Job, samples [][]ratio.Sample) {
	t := taken{m, make(map[string][]ratio.Sample)}
	for i, impl := range job.Impls {
		t.impls[impl.Name] = samples[i]
	}
	s.samples[job.Label()] = t
}

// Write writes the set's samples for all. Lines of one round follow each other.
func (s *Set) Write(w io.Writer, all []jobs.Job) error {
	out := benchfmt.NewWriter(w)
	for _, job := range all {
		samples, ok := s.Of(job)
		if !ok {
			continue
		}
		for round := range samples[0] {
			for i, impl := range job.Impls {
				line := &benchfmt.Result{
					Name: benchfmt.Name(job.Name + "/impl=" + strings.ReplaceAll(impl.Name, "/", ".") + "/" + job.Params), Iters: 1,
				}
				m := s.Machine(job)
				for _, f := range m.fields() {
					if *f.of != "" {
						line.SetConfig(f.key, *f.of)
					}
				}
				for j := range line.Config {
					line.Config[j].File = true
				}
				for _, f := range ratio.Figures() {
					if x := *f.Of(&samples[i][round]); x != 0 {
						line.Values = append(line.Values, benchfmt.Value{Value: rounded(x), Unit: f.Unit})
					}
				}
				if err := out.Write(line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Read reads what Write has written.
func Read(r io.Reader, name string, all []jobs.Job) (*Set, error) {
	s := NewSet()
	in := benchfmt.NewReader(r, name)
	for in.Scan() {
		switch line := in.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, line
		case *benchfmt.Result:
			var m Machine
			for _, f := range m.fields() {
				*f.of = line.GetConfig(f.key)
			}
			job, impl, ok := find(all, string(line.Name))
			if !ok {
				continue // a job that no longer exists
			}
			var sample ratio.Sample
			for _, f := range ratio.Figures() {
				*f.Of(&sample) = value(line, f.Unit)
			}
			if _, ok := s.samples[job]; !ok {
				s.samples[job] = taken{m, make(map[string][]ratio.Sample)}
			}
			s.samples[job].impls[impl] = append(s.samples[job].impls[impl], sample)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	return s, nil
}

// rounded rounds x to four digits.
func rounded(x float64) float64 {
	x, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		panic(err)
	}
	return x
}

// value returns the value in its original unit: reading converts ns to seconds.
func value(line *benchfmt.Result, unit string) float64 {
	for _, v := range line.Values {
		switch unit {
		case v.OrigUnit:
			return v.OrigValue
		case v.Unit:
			return v.Value
		}
	}
	return 0
}

// find returns the label and the implementation for the name of a benchmark.
func find(all []jobs.Job, name string) (job, impl string, ok bool) {
	for _, j := range all {
		for _, i := range j.Impls {
			if name == j.Name+"/impl="+strings.ReplaceAll(i.Name, "/", ".")+"/"+j.Params {
				return j.Label(), i.Name, true
			}
		}
	}
	return "", "", false
}
