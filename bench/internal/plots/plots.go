// Package plots draws how cost grows, as SVG.
package plots

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Point is a median with its quartiles, at X.
type Point struct{ X, Low, Median, High float64 }

// A Line is the points of one implementation.
type Line struct {
	Name   string
	Points []Point
}

// A Plot is some lines over a logarithmic axis.
type Plot struct {
	Title, X, Y string
	Lines       []Line
	LogY        bool
}

// palette returns colours that people with colour blindness can tell apart, after
// Okabe and Ito.
func palette(i int) color.Color {
	all := []color.RGBA{
		{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff},
		{0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
	}
	return all[i%len(all)]
}

// Save writes the plot to a file, whose name ends in .svg.
func (p Plot) Save(file string) error {
	out := plot.New()
	out.Title.Text = p.Title
	out.X.Label.Text, out.Y.Label.Text = p.X, p.Y
	out.X.Scale = plot.LogScale{}
	out.X.Tick.Marker = plot.ConstantTicks(p.ticks())
	if p.LogY {
		out.Y.Scale = plot.LogScale{}
		out.Y.Tick.Marker = plot.ConstantTicks(p.decades())
	} else {
		out.Y.Min = 0
	}
	out.BackgroundColor = color.White
	out.Legend.Top, out.Legend.Left = true, true
	out.Legend.Padding = vg.Points(2)
	grid := plotter.NewGrid()
	grid.Vertical.Color = color.Gray{0xe4}
	grid.Horizontal.Color = color.Gray{0xe4}
	out.Add(grid)
	for i, l := range p.Lines {
		if err := add(out, l, palette(i)); err != nil {
			return fmt.Errorf("plots: %s: %w", l.Name, err)
		}
	}
	if !p.LogY {
		out.Y.Min = 0
		out.Y.Max *= 1.25 // leaves room for the legend
	}
	return out.Save(16*vg.Centimeter, 10*vg.Centimeter, file)
}

// add draws a line, its points and the quartiles.
func add(out *plot.Plot, l Line, c color.Color) error {
	xys := make(plotter.XYs, len(l.Points))
	errors := make(plotter.YErrors, len(l.Points))
	for i, p := range l.Points {
		xys[i] = plotter.XY{X: p.X, Y: p.Median}
		errors[i].Low, errors[i].High = p.Median-p.Low, p.High-p.Median
	}
	line, points, err := plotter.NewLinePoints(xys)
	if err != nil {
		return err
	}
	bars, err := plotter.NewYErrorBars(struct {
		plotter.XYer
		plotter.YErrorer
	}{xys, errors})
	if err != nil {
		return err
	}
	line.Color, points.Color, bars.Color = c, c, c
	line.Width = vg.Points(1.5)
	points.Shape = draw.CircleGlyph{}
	out.Add(bars, line, points)
	out.Legend.Add(l.Name, line, points)
	return nil
}

// ticks returns the X positions of the points.
func (p Plot) ticks() []plot.Tick {
	var ticks []plot.Tick
	for _, l := range p.Lines {
		for _, pt := range l.Points {
			if !slices.ContainsFunc(ticks, func(t plot.Tick) bool { return t.Value == pt.X }) {
				ticks = append(ticks, plot.Tick{Value: pt.X, Label: short(pt.X)})
			}
		}
	}
	return ticks
}

// decades returns the powers of ten that the lines span, with the steps 2 and 5.
func (p Plot) decades() []plot.Tick {
	low, high := math.Inf(1), 0.
	for _, l := range p.Lines {
		for _, pt := range l.Points {
			low, high = min(low, pt.Low), max(high, pt.High)
		}
	}
	var ticks []plot.Tick
	for d := math.Pow(10, math.Floor(math.Log10(low))); d <= 10*high; d *= 10 {
		for _, step := range []float64{1, 2, 5} {
			if x := d * step; x >= low/2 && x <= high*2 {
				ticks = append(ticks, plot.Tick{Value: x, Label: short(x)})
			}
		}
	}
	return ticks
}

func short(x float64) string {
	switch {
	case x >= 1e6:
		return fmt.Sprintf("%gM", x/1e6)
	case x >= 1e3:
		return fmt.Sprintf("%gk", x/1e3)
	}
	return fmt.Sprintf("%.3g", x)
}
