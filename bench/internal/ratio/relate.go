package ratio

import "slices"

// A Figure reads one figure of a sample.
type Figure func(Sample) float64

// A Unit is a figure of a sample with its name in benchmarks.
type Unit struct {
	Unit string
	Of   func(*Sample) *float64
}

// Figures returns the figures of a sample. A figure that is 0 was not measured.
func Figures() []Unit {
	return []Unit{
		{"wall-ns/event", func(s *Sample) *float64 { return &s.Wall }},
		{"cpu-ns/event", func(s *Sample) *float64 { return &s.CPU }},
		{"allocs/event", func(s *Sample) *float64 { return &s.Allocs }},
		{"B/event", func(s *Sample) *float64 { return &s.Bytes }},
		{"p50-ns", func(s *Sample) *float64 { return &s.P50 }},
		{"p99-ns", func(s *Sample) *float64 { return &s.P99 }},
		{"held-B/event", func(s *Sample) *float64 { return &s.Held }},
		{"others-processors", func(s *Sample) *float64 { return &s.Others }},
	}
}

// A Spread is a median with its quartiles.
type Spread struct{ Low, Median, High float64 }

// Of returns the spread of a figure over the rounds.
func Of(samples []Sample, figure Figure) Spread {
	xs := make([]float64, len(samples))
	for i, s := range samples {
		xs[i] = figure(s)
	}
	return SpreadOf(xs)
}

// Between returns the spread of relate over a figure of samples and of base,
// round by round.
func Between(samples, base []Sample, figure Figure, relate func(x, base float64) float64) Spread {
	xs := make([]float64, min(len(samples), len(base)))
	for i := range xs {
		xs[i] = relate(figure(samples[i]), figure(base[i]))
	}
	return SpreadOf(xs)
}

// Divide relates two figures as a ratio.
func Divide(x, base float64) float64 { return x / base }

// Subtract relates two figures as a difference.
func Subtract(x, base float64) float64 { return x - base }

// SpreadOf returns the spread of figures, or zero if there are none.
func SpreadOf(xs []float64) Spread {
	return Spread{quantile(xs, .25), quantile(xs, .5), quantile(xs, .75)}
}

func quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	xs = slices.Sorted(slices.Values(xs))
	return xs[int(q*float64(len(xs)-1)+.5)]
}
