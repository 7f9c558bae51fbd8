//! What charts are made of.

/// A colour: red, green, blue.
pub(super) type Colour = [u8; 3];

/// A place in pixels from the left upper corner.
pub(super) type Place = (f64, f64);

/// Where a text lies relative to its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Something that can be drawn.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Shape {
    /// A line through places. `dash` are lengths drawn and left out in turn; empty is solid.
    Line { places: Vec<Place>, colour: Colour, width: f64, dash: &'static [f64] },
    /// A filled polygon.
    Area { places: Vec<Place>, colour: Colour },
    /// A text; its baseline begins, has its middle or ends at `at`. `upright` texts run upwards.
    Text { at: Place, text: String, size: f64, anchor: Anchor, upright: bool, bold: bool },
}

/// Shapes and the size of what they fill.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Drawing {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) shapes: Vec<Shape>,
}
