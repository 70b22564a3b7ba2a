package picture

import (
	_ "embed"
	"fmt"
	"html"
	"strings"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/plain"
)

// Style is the style sheet for the result of SVG, with colours for light and dark surroundings, for a
// page that shows it.
//
//go:embed style.css
var Style string

// SVG returns the picture as an SVG element. It has classes but no colours: the page that shows it
// needs a style sheet such as [Style]. [Picture.Document] includes one.
func (p *Picture) SVG() string {
	var b strings.Builder
	p.draw(&b, "")
	return b.String()
}

// Document returns the picture as a complete file with a style sheet, for light and dark
// surroundings.
func (p *Picture) Document() string {
	var b strings.Builder
	p.draw(&b, "<style>\n"+Style+"svg{background:var(--bg)}\n</style>")
	return b.String()
}

func (p *Picture) draw(b *strings.Builder, style string) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f">%s`+"\n", p.W, p.H, p.W, p.H, style)
	for _, s := range p.Shades {
		fmt.Fprintf(b, `<rect class="shade" x="%.0f" y="%.0f" width="%.0f" height="%.0f"/>`+"\n", s.X, s.Y, s.W, s.H)
	}
	for _, c := range p.Columns {
		if c.Title != "" {
			fmt.Fprintf(b, `<text class="column" x="%.0f" y="%d">%s</text>`+"\n", c.X, margin+8, text(c.Title, longestTitle))
		}
	}
	for _, l := range p.Lines {
		class := ""
		if l.Back {
			class = ` class="back"`
		}
		end := l.Points[len(l.Points)-1]
		fmt.Fprintf(b, `<path%s d="%s"/><path class="arrow" d="M%.0f %.0fl-3 -6h6z"/>`+"\n", class, way(l.Points), end[0], end[1])
	}
	for i := range p.Boxes {
		p.Boxes[i].draw(b)
	}
	b.WriteString("</svg>\n")
}

// way returns the path of a line: curves between layers, which leave and arrive vertically, and
// straight segments beside the places of a layer.
func way(points [][2]float64) string {
	var b strings.Builder
	for i, q := range points {
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M%.0f %.0f", q[0], q[1])
		case i%2 == 1:
			half := (points[i-1][1] + q[1]) / 2
			fmt.Fprintf(&b, "C%.0f %.0f %.0f %.0f %.0f %.0f", points[i-1][0], half, q[0], half, q[0], q[1])
		default:
			fmt.Fprintf(&b, "V%.0f", q[1])
		}
	}
	return b.String()
}

func (x *Box) draw(b *strings.Builder) {
	if x.Link != "" {
		fmt.Fprintf(b, `<a href="%s">`, text(x.Link, 200))
	}
	b.WriteString("<g")
	for _, a := range [...][2]string{{"id", x.ID}, {"class", x.Class}, {"data-of", x.Data}} {
		if a[1] != "" {
			fmt.Fprintf(b, ` %s="%s"`, a[0], text(a[1], 4000))
		}
	}
	fmt.Fprintf(b, ` transform="translate(%.0f %.0f)">`, x.X-x.W/2, x.Y-boxHeight/2)
	if x.Title != "" {
		fmt.Fprintf(b, "<title>%s</title>", text(x.Title, 400))
	}
	round := 6
	if strings.Contains(" "+x.Class+" ", " port ") {
		round = boxHeight / 2
	}
	inset, letters := 10, x.W-20
	fmt.Fprintf(b, `<rect width="%.0f" height="%d" rx="%d"/><text x="%d" y="16">%s</text>`, x.W, boxHeight, round, inset, text(x.Label, int(letters/6.4)))
	fmt.Fprintf(b, `<text x="%d" y="30" class="sub">%s</text></g>`, inset, text(x.Sub, int(letters/5.4)))
	if x.Link != "" {
		b.WriteString("</a>")
	}
	b.WriteString("\n")
}

// Text returns at most n characters of a text for a picture or a page. Characters that are invisible,
// or would reorder the rest, are spelled out.
func Text(s string, n int) string {
	at := 0
	for shown := 0; at < len(s); shown++ {
		_, size := utf8.DecodeRuneInString(s[at:])
		if shown >= n-1 && at+size < len(s) {
			return plain.Line(s[:at]) + "…"
		}
		at += size
	}
	return plain.Line(s)
}

// text returns [Text], escaped for an element.
func text(s string, n int) string { return html.EscapeString(Text(s, n)) }
