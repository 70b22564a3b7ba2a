package main

import (
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
)

// Site is where clicks are counted.
type Site struct{ dataflow.Process }

// A Click is a line of the input.
type Click struct {
	Visitor string    `json:"visitor"`
	Page    string    `json:"page"`
	Time    time.Time `json:"time"`
}

// pause is how long a visitor does not click before a visit is over.
const pause = 30 * time.Minute

// A Visit is the clicks of a visitor with less than a pause between them.
type Visit struct {
	Clicks int
	Pages  map[string]int
}

func newVisit() Visit { return Visit{Pages: make(map[string]int)} }

func (v *Visit) click(c Click) {
	v.Clicks++
	v.Pages[c.Page]++
}

func (v *Visit) merge(other Visit) {
	v.Clicks += other.Clicks
	for page, n := range other.Pages {
		v.Pages[page] += n
	}
}

// Ports are the input and the outputs of the flow.
type Ports struct {
	Clicks *dataflow.InputPort[Click]
	Visits *dataflow.EntryOutputPort[window.Key[string], Visit] // by visitor
	Hours  *dataflow.EntryOutputPort[window.Key[string], int]   // clicks by page
}

// build makes the flow. A visit, and an hour, is over when no click of a later time can belong to
// it, so the same clicks give the same results whenever they are read. Of what is over nothing is
// remembered.
func build(flow *dataflow.Flow) Ports {
	in, clicks := dataflow.Input[Click](dataflow.At[Site](flow), "clicks")
	events, _ := window.Stamp(clicks, func(c Click) window.Time { return window.TimeOf(c.Time) }, window.Disorder{Slack: time.Minute})

	byVisitor := dataflow.KeyBy(events, func(e window.Event[Click]) string { return e.Value.Visitor })
	visits, _ := window.Sessions(byVisitor, pause, newVisit, (*Visit).click, (*Visit).merge, "clicks are counted, in whatever order they come")

	byPage := dataflow.KeyBy(events, func(e window.Event[Click]) string { return e.Value.Page })
	hours, _ := window.Count(byPage, window.Every(time.Hour))
	return Ports{in, keyedsingleton.Output(visits, "visits"), keyedsingleton.Output(hours, "hours")}
}
