package handover

// A Place says where something is, as one of the two sides of a transfer knows it.
type Place uint8

// The places. What was never moved is Here.
const (
	Here   Place = iota // it is served here
	Frozen              // source: nothing of it goes on, and what comes is held
	Doubt               // source: the destination may have it, and decides
	Gone                // source: the destination has it, and what comes is forwarded
	None                // destination: nothing of it is here
	Staged              // destination: all of it is here, and nothing of it goes on
)

var places = [...]string{"here", "frozen", "in doubt", "gone", "not here", "staged"}

// String returns the place as an error says it.
func (p Place) String() string { return places[p] }

// Leaving reports whether it is on its way from here. Nobody serves it, or it is not known who does.
func (p Place) Leaving() bool { return p == Frozen || p == Doubt }

// Still reports whether nothing of it may go on here, but what comes for it is kept.
func (p Place) Still() bool { return p.Leaving() || p == Staged }

// A Step is one step of a transfer.
type Step uint8

// The steps. Commit and Abort are the decision at the destination, and the news of it at the source.
const (
	Freeze Step = iota + 1 // source: stop everything, and hold what comes
	Send                   // source: its state leaves
	Stage                  // destination: take its state, and serve nothing
	Commit                 // the destination serves it
	Abort                  // the destination never will, so the source goes on
	Forget                 // nobody asks any longer where it went
)

var steps = [...]string{"none", "freeze", "send", "stage", "commit", "abort", "forget"}

// String returns the step in one word.
func (s Step) String() string { return steps[s] }

// at is a step at a place.
type at struct {
	Place Place
	Step  Step
}

// next has the place to which each step leads. Any other step is refused.
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
