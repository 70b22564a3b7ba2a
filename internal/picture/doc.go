// Package picture lays out the boxes and lines of a graph from top to bottom, and draws them as
// SVG.
//
// Nothing is random, and ties are broken by index, so a graph always has the same picture.
// [Picture.Layout] uses these steps, after Sugiyama, Tagawa and Toda, "Methods for Visual
// Understanding of Hierarchical System Structures" (1981):
//
//  1. A box is one layer below the lowest that leads to it (layers.go). Lines that lead back are
//     left out.
//  2. A line that passes layers has a bend in each, which takes part in what follows.
//  3. The boxes of a layer are ordered by the medians of their neighbours, from above and from
//     below in turn, and neighbours are swapped where that saves crossings (order.go). Boxes of a
//     group stay together.
//  4. Each box moves as near to its neighbours as order and gaps permit (place.go).
//  5. Lines that lead back, or to another column, go through the gutter beside the column
//     (route.go).
package picture
