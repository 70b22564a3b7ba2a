package picture

// A Picture is a graph with a layout. The caller sets the boxes and lines; Layout sets the
// positions, in pixels from the upper left corner.
type Picture struct {
	Columns []Column // side by side, such as one for each location of a flow
	Boxes   []Box
	Lines   []Line
	Shades  []Shade // set by Layout
	W, H    float64 // set by Layout
}

// A Column is a part of a picture that is laid out separately.
type Column struct {
	Title string
	X, W  float64 // set by Layout
}

// A Box is a node.
type Box struct {
	Column int
	Group  int // boxes of one group stay together; -1 for none
	W      float64
	X, Y   float64 // of the center; set by Layout

	ID    string // of the element; empty for none
	Class string
	Label string
	Sub   string // a second line, smaller
	Title string // tooltip
	Link  string // empty for none
	Data  string // value of the attribute data-of; empty for none

	layer int
}

// A Line leads from one box to another.
type Line struct {
	From, To int
	Back     bool         // the line closes a cycle, and is drawn dashed
	Points   [][2]float64 // set by Layout
}

// A Shade is the part of a group that is in one layer.
type Shade struct {
	Group      int
	X, Y, W, H float64
}

// Sizes, in pixels.
const (
	boxHeight = 38
	layerGap  = 34
	boxGap    = 18
	bendGap   = 14 // beside a line that passes a layer
	laneGap   = 10 // between two lines in a gutter
	margin    = 16
	titleRoom = 12 + layerGap // above the boxes, if columns have titles: lines that go around are below the titles
)

// Layout sets all positions. It takes O(n²) time for the n boxes and bends of a layer.
func (p *Picture) Layout() {
	p.Shades = nil
	columns := max(len(p.Columns), 1)
	left, top := 0.0, float64(margin)
	for _, c := range p.Columns {
		if c.Title != "" {
			top = margin + titleRoom
		}
	}
	grids := make([]*grid, columns)
	for c := range grids {
		grids[c] = newGrid(p, c)
	}
	gutters := p.gutters(columns)
	deepest := 0
	for c, g := range grids {
		gutters[c].x = left
		left += gutters[c].width()
		g.order()
		right := g.place(left+margin, top)
		deepest = max(deepest, len(g.layers))
		if c < len(p.Columns) {
			right = max(right, left+margin+textWidth(p.Columns[c].Title))
			p.Columns[c].X, p.Columns[c].W = left+margin, right-left-margin
		}
		left = right
	}
	gutters[columns].x = left
	p.route(gutters)
	p.W = left + gutters[columns].width() + margin
	p.H = top + float64(deepest)*(boxHeight+layerGap) + margin - layerGap
	if deepest == 0 {
		p.H = top + margin
	}
	for _, l := range p.Lines { // a line that goes around is below the last layer
		for _, q := range l.Points {
			p.H = max(p.H, q[1]+margin/2)
		}
	}
}

// longestTitle is the number of characters of a column's title that are shown.
const longestTitle = 60

// textWidth estimates the width of a title. In most fonts the title is narrower; the actual font
// is unknown.
func textWidth(title string) float64 { return 6.8 * float64(min(len(title), longestTitle)) }
