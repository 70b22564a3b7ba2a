package inspect

import (
	"fmt"
	"html/template"
	"reflect"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/picture"
)

// Funcs returns functions for the templates of pages. "plain" returns a text without characters that change how other text is
// shown, such as direction marks, cut after a thousand characters. "brief" does the same, cut after a hundred. "size" formats a
// number of bytes for people. "ago" formats how long before its first argument its second one was.
func Funcs() template.FuncMap {
	return template.FuncMap{
		"plain": func(s string) string { return picture.Text(s, longestText) },
		"brief": brief,
		"ago":   ago,
		"size":  sizeOf,
	}
}

// count formats a number for people.
func count(n uint64) string {
	switch {
	case n < 10_000:
		return strconv.FormatUint(n, 10)
	case n < 1_000_000:
		return strconv.FormatFloat(float64(n)/1e3, 'f', 1, 64) + "K"
	case n < 1_000_000_000:
		return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) + "M"
	default:
		return strconv.FormatFloat(float64(n)/1e9, 'f', 1, 64) + "G"
	}
}

// sizeOf formats any integer as a size, since templates use several integer types.
func sizeOf(n any) (string, error) {
	switch v := reflect.ValueOf(n); {
	case v.CanUint():
		return size(v.Uint()), nil
	case v.CanInt():
		return size(uint64(max(0, v.Int()))), nil
	}
	return "", fmt.Errorf("%T is no number of bytes", n)
}

func size(n uint64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatUint(n, 10) + " B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	case n < 1<<30:
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
	default:
		return strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64) + " GiB"
	}
}

// ago formats how long before now a time was.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := now.Sub(t)
	if d < 0 {
		return "in " + (-d).Round(time.Second).String()
	}
	if d < time.Second {
		return "now"
	}
	return d.Round(time.Second).String() + " ago"
}

// longestPast is how many characters of a key or a value the page of a step shows.
const longestPast = 100

// brief returns a text without characters that change how other text is shown, cut after longestPast characters.
func brief(s string) string { return picture.Text(s, longestPast) }
