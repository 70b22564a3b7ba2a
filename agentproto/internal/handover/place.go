package handover

// A Place is the location of something, as seen by one side of a transfer.
type Place uint8

// The places. Something that was never moved is Here.
const (
	Here   Place = iota // it is served here
	Frozen              // source: it is stopped, and what arrives for it is held
	Doubt               // source: the destination may have it, and decides
	Gone                // source: the destination has it, and what arrives is forwarded
	None                // destination: nothing of it is here
	Staged              // destination: all of it is here, but stopped
)

var places = [...]string{"here", "frozen", "in doubt", "gone", "not here", "staged"}

// String returns the place in words, for error messages.
func (p Place) String() string { return places[p] }

// Leaving reports whether it is leaving from here: nobody serves it, or it is not known who does.
func (p Place) Leaving() bool { return p == Frozen || p == Doubt }

// Still reports whether it is stopped here, while what arrives for it is held.
func (p Place) Still() bool { return p.Leaving() || p == Staged }

// A Step is one step of a transfer.
type Step uint8

// The steps. Commit and Abort are the decision at the destination, and the report of the decision at
// the source.
const (
	Freeze Step = iota + 1 // source: stop everything, and hold what arrives
	Send                   // source: send the state
	Stage                  // destination: take the state, but do not serve it
	Commit                 // the destination serves it
	Abort                  // the destination never will serve it, so the source continues
	Forget                 // nobody asks where it went any longer
)

var steps = [...]string{"none", "freeze", "send", "stage", "commit", "abort", "forget"}

// String returns the step in one word.
func (s Step) String() string { return steps[s] }

// at is a combination of a place and a step.
type at struct {
	Place Place
	Step  Step
}

// next contains the place that each allowed step leads to. All other steps are refused.
var next = map[at]Place{
	{Here, Freeze}:   Frozen,
	{Frozen, Send}:   Doubt,
	{Frozen, Abort}:  Here,
	{Doubt, Commit}:  Gone,
	{Doubt, Abort}:   Here,
	{Gone, Stage}:    Staged,
	{Gone, Forget}:   Here,
	{None, Stage}:    Staged,
	{None, Forget}:   Here,
	{Staged, Commit}: Here,
	{Staged, Abort}:  None,
}
