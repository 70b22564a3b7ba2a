package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// A version is what an output shows from a step on, until the next version.
type version struct {
	step    int
	text    string
	content Content
	length  int // of a stream: how many elements it received
}

// A replayedRun is the result of replaying a recording, step by step. Steps have the numbers
// of the recording; -1 stands for the state before the first step.
type replayedRun struct {
	*flowing
	steps    []int       // steps of the program's location
	versions [][]version // by output
	events   map[int]int // number of events after each step
	asked    map[int]int // for each key, the step that requested its call
	moved    []int       // for each element sent to another location, the step that sent it
}

// captured is called after a step of the location.
func (c *replayedRun) captured(step int) {
	if c.events == nil {
		c.events, c.asked, c.versions = make(map[int]int), make(map[int]int), make([][]version, len(c.reads))
	}
	if step >= 0 {
		c.steps = append(c.steps, step)
	}
	c.events[step] = len(c.builder.events)
	for _, k := range c.flowing.asked[len(c.asked):] {
		c.asked[k] = step
	}
	for len(c.moved) < c.flowing.moved {
		c.moved = append(c.moved, step)
	}
	for i, r := range c.reads {
		v := version{step: step, text: r.shown(), length: len(r.order)}
		if all := c.versions[i]; len(all) > 0 && all[len(all)-1].text == v.text && all[len(all)-1].length == v.length {
			continue
		}
		if r.latest != nil {
			v.content = r.latest()
		} else {
			v.content.Entries = maps.Clone(r.given.Entries)
		}
		c.versions[i] = append(c.versions[i], v)
	}
}

// replay replays the recording with a fresh graph, a whole step at a time.
func replay(s *script, from *dataflow.Recording) (*replayedRun, error) {
	flow := dataflow.New()
	steps := simulate.NewReplay(graphOf(flow), historyOf(from), nil)
	c := &replayedRun{flowing: raise(context.Background(), s, flow)}
	c.captured(-1)
	app, err := dataflow.Start(context.Background(), flow)
	if err != nil {
		return nil, err
	}
	for n := range from.Steps() {
		if !steps.Step() {
			return nil, fmt.Errorf("step %d cannot be made again: %w", n, app.Err())
		}
		if historyOf(from).Location(n) == 0 {
			c.captured(n)
		}
	}
	return c, nil
}

// check compares what production showed with the replay of its recording.
func (r *production) check(c *replayedRun) error {
	if got, want := r.builder.events, c.builder.events; !reflect.DeepEqual(got, want) {
		return fmt.Errorf("production and its recording differ:\n%s\n%s", r.story(len(got)), c.story(len(want)))
	}
	for i := range r.reads {
		if r.reads[i].next != nil {
			continue
		}
		now := c.versions[i][0].text
		if len(r.shows) > 0 && r.shows[0] == nil {
			return fmt.Errorf("the first step was not published")
		}
		next := 1
		for _, step := range c.steps {
			if all := c.versions[i]; next < len(all) && all[next].step == step {
				now = all[next].text
				next++
			}
			if text, changed := r.shows[step][i]; changed && text != now || !changed && next > 1 && c.versions[i][next-1].step == step {
				return fmt.Errorf("output %d of n%d shows %q after step %d in production, changed there: %v; the recording gives %q", i, r.reads[i].node, text, step, changed, now)
			}
		}
	}
	for i, x := range r.reads { // readers received every element
		if x.next != nil && len(c.reads[i].order) != len(r.got(i)) {
			return fmt.Errorf("output %d of n%d was read %d times, the recording gives %d elements", i, x.node, len(r.got(i)), len(c.reads[i].order))
		}
	}
	return c.explain(r.sights)
}

// got returns the elements that were read from output i.
func (r *production) got(i int) (all []sight) {
	for _, x := range r.sights {
		if x.port == i && x.form == aNext {
			all = append(all, x)
		}
	}
	return all
}

// explain finds, for each sight, a step after which an output shows that sight. The step
// must not be earlier than the last step published when the sight began, nor than the step
// of any sight that had ended by then. It must not be later than the last step that the
// sight could see. explain chooses the earliest such step, because it restricts the other
// sights least: if no such step exists, the sights contradict each other.
func (c *replayedRun) explain(sights []sight) error {
	slices.SortFunc(sights, func(a, b sight) int { return cmp.Compare(a.began, b.began) })
	at := make([]int, len(sights))
	ended := make([]int, len(sights)) // sights by their end
	for i := range ended {
		ended[i] = i
	}
	slices.SortFunc(ended, func(i, j int) int { return cmp.Compare(sights[i].ended, sights[j].ended) })
	floor, by := -1, -1
	for i, x := range sights {
		for len(ended) > 0 && sights[ended[0]].ended < x.began {
			if at[ended[0]] > floor {
				floor, by = at[ended[0]], ended[0]
			}
			ended = ended[1:]
		}
		low := max(floor, x.from)
		if x.asked >= 0 {
			low = max(low, c.asked[x.asked])
		}
		if x.moved >= 0 {
			low = max(low, c.moved[x.moved])
		}
		step, ok := c.first(x, low)
		if !ok {
			var before string
			if by >= 0 {
				before = fmt.Sprintf("\nbefore, %v, which is so from step %d on", sights[by], at[by])
			}
			return fmt.Errorf("%v\nno step from %d on shows that%s\n%s", x, low, before, c.versionsOf(x.port))
		}
		at[i] = step
	}
	return nil
}

// first returns the first step, from low to the last one that x could see, after which the
// output shows x.
func (c *replayedRun) first(x sight, low int) (int, bool) {
	all := c.versions[x.port]
	for n, v := range all {
		last := c.following(x.until)
		if n+1 < len(all) {
			last = min(last, all[n+1].step-1)
		}
		if step := max(low, v.step); step <= last && c.matches(x, v) {
			return step, true
		}
	}
	return 0, false
}

// following returns the step after step. A reader may see part of that step before it is
// noted as published.
func (c *replayedRun) following(step int) int {
	i, _ := slices.BinarySearch(c.steps, step+1)
	if i == len(c.steps) {
		return step
	}
	return c.steps[i]
}

func (c *replayedRun) matches(x sight, v version) bool {
	switch x.form {
	case aLatest:
		same := x.all.OK == v.content.OK || c.reads[x.port].kind.shape == single // a single always holds a value
		return same && x.all.Value == v.content.Value && maps.Equal(x.all.Entries, v.content.Entries)
	case aGet:
		value, ok := v.content.Entries[x.key]
		return ok == x.ok && value == x.value
	case aLength:
		return x.value == len(v.content.Entries)
	default:
		e := dataflow.Entry[int, int]{Key: x.key, Value: x.value}
		return x.index < v.length && c.reads[x.port].order[x.index] == e
	}
}

func (c *replayedRun) versionsOf(port int) string {
	s := fmt.Sprintf("output %d of n%d:", port, c.reads[port].node)
	for _, v := range c.versions[port] {
		s += fmt.Sprintf("\n  from step %d on: %s", v.step, v.text)
	}
	return s
}

// agrees compares the replay with the model after every step.
func (c *replayedRun) agrees() error {
	e := newEvaluator(c.p, c.builder.events)
	for i, r := range c.reads {
		k, next := r.kind, 0
		for _, step := range c.steps {
			for next+1 < len(c.versions[i]) && c.versions[i][next+1].step <= step {
				next++
			}
			got := c.versions[i][next].text
			if want := k.text(e.at(r.node, c.events[step])); got != want {
				return fmt.Errorf("after step %d, n%d is %s, and the model says %s\n%s", step, r.node, got, want, c.story(c.events[step]))
			}
		}
	}
	for _, step := range c.steps {
		b := *c.builder
		b.events = b.events[:c.events[step]]
		for s := range c.p.ranks {
			if err := b.runsRight(e, s, true); err != nil {
				return fmt.Errorf("after step %d: %w", step, err)
			}
		}
	}
	return nil
}
