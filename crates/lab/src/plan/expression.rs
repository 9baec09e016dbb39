//! The test of a declared check: numbers that were measured, arithmetic, and a bound.
//!
//! ```text
//! ratio('delivery'.p99{sender=festina}, 'delivery'.p99{sender=rack}) < 0.8
//! 'goodput (kbit/s)' / 1000 - 'rate (Mbit/s)' from -0.5 to 0.5
//! 1 - ratio('delivery'.mean{loss=1%}, 'delivery'.mean) within 25% of 0.5
//! ('delivery'.p99 - 'floor'.p99) / rtt < 1.5
//! everywhere('messages' - 'delivered') from 0 to 0
//! ```
//!
//! A word is the value of a parameter in the cell: in milliseconds, bit/s, bytes or as a share of one.

use crate::evidence::Bound;

/// The most characters of a test.
const CHARS_MAX: usize = 2_000;
/// The most parentheses and functions within each other.
const DEPTH_MAX: usize = 16;

/// A statistic of a measured series or number in each repetition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// The number itself.
    Value,
    /// The mean delay in milliseconds.
    Mean,
    /// This quantile of the delays in milliseconds.
    Quantile(f64),
    /// The longest delay in milliseconds.
    Max,
    /// Number of delays, 0 where there is none.
    Count,
    /// The sum of the delays in milliseconds, 0 where there is none.
    Sum,
    /// The number itself, 0 where it was not measured.
    OrZero,
}

/// The names of statistics of delays.
const STATISTICS: [(&str, Statistic); 9] = [
    ("mean", Statistic::Mean),
    ("p50", Statistic::Quantile(0.5)),
    ("p90", Statistic::Quantile(0.9)),
    ("p99", Statistic::Quantile(0.99)),
    ("p999", Statistic::Quantile(0.999)),
    ("max", Statistic::Max),
    ("count", Statistic::Count),
    ("sum", Statistic::Sum),
    ("orzero", Statistic::OrZero),
];

/// A measured number at one point of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Its name, or that of a series of delays.
    pub name: String,
    /// What of it.
    pub statistic: Statistic,
    /// The point has these values.
    pub settings: Vec<(String, String)>,
}

/// An arithmetic operation on two numbers of the same repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `+`.
    Plus,
    /// `-`.
    Minus,
    /// `*`.
    Times,
    /// `/`.
    Over,
}

impl Operation {
    /// The result.
    pub fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Self::Plus => one + other,
            Self::Minus => one - other,
            Self::Times => one * other,
            Self::Over => one / other,
        }
    }
}

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The natural logarithm.
    Ln,
    /// The square root.
    Sqrt,
}

impl Function {
    /// The result.
    pub fn of(self, number: f64) -> f64 {
        match self {
            Self::Ln => number.ln(),
            Self::Sqrt => number.sqrt(),
        }
    }
}

/// A number as the test calculates it.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A constant.
    Number(f64),
    /// A measured number.
    Measured(Measured),
    /// The ratio of the means of two numbers.
    Ratio(Box<[Expression; 2]>),
    /// The sum of a number over all repetitions, without an interval.
    Total(Box<Expression>),
    /// The sum of a number over all repetitions of all points of the plan; where there is none, 0.
    Everywhere(Box<Expression>),
    /// A function of the number of each repetition.
    Function(Function, Box<Expression>),
    /// Arithmetic within each repetition.
    Arithmetic(Operation, Box<[Expression; 2]>),
}

/// What a number can be combined with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Constant,
    /// A number for each repetition.
    Each,
    /// A mean with its interval.
    Estimate,
}

impl Expression {
    fn kind(&self) -> Kind {
        match self {
            Self::Number(_) | Self::Total(_) | Self::Everywhere(_) => Kind::Constant,
            Self::Measured(_) => Kind::Each,
            Self::Ratio(_) => Kind::Estimate,
            Self::Function(_, of) => of.kind(),
            Self::Arithmetic(_, pair) => match [pair[0].kind(), pair[1].kind()] {
                [Kind::Constant, Kind::Constant] => Kind::Constant,
                kinds if kinds.contains(&Kind::Estimate) => Kind::Estimate,
                _ => Kind::Each,
            },
        }
    }

    /// All measured numbers in it.
    pub fn measured(&self) -> Vec<&Measured> {
        match self {
            Self::Number(_) => Vec::new(),
            Self::Measured(measured) => vec![measured],
            Self::Total(of) | Self::Everywhere(of) | Self::Function(_, of) => of.measured(),
            Self::Ratio(pair) | Self::Arithmetic(_, pair) => pair.iter().flat_map(Self::measured).collect(),
        }
    }

    /// The value of an expression without measured numbers.
    fn constant(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Function(function, of) => of.constant().map(|number| function.of(number)),
            Self::Arithmetic(operation, pair) => Some(operation.of(pair[0].constant()?, pair[1].constant()?)),
            Self::Measured(_) | Self::Ratio(_) | Self::Total(_) | Self::Everywhere(_) => None,
        }
    }
}

/// Reads settings: a parameter and its value as they stand in the test, the value as [`Value`](super::Value) prints it.
pub(super) trait Settings {
    /// The settings of a measured number unless the test gives others.
    fn defaults(&self) -> Vec<(String, String)>;

    /// The value as results have it.
    ///
    /// # Errors
    /// If the parameter or its value makes no sense.
    fn value(&self, parameter: &str, text: &str) -> Result<String, String>;

    /// The value of a parameter in the cell, if it is a number.
    fn number(&self, parameter: &str) -> Option<f64>;
}

/// Reads a test.
///
/// # Errors
/// The problem, and where in the text it is.
pub(super) fn parse(text: &str, settings: &dyn Settings) -> Result<(Expression, Bound), String> {
    if text.len() > CHARS_MAX {
        return Err(format!("the test has {} characters; expected at most {CHARS_MAX}", text.len()));
    }
    let mut parser = Parser { text, rest: text, depth: 0, settings };
    let expression = parser.sum()?;
    let bound = parser.bound()?;
    if !parser.rest.trim().is_empty() {
        return Err(parser.unexpected("the end of the test"));
    }
    if expression.constant().is_some() {
        return Err(
            "the test measures nothing; expected the name of a measured number such as 'delivery'.mean".to_owned()
        );
    }
    Ok((expression, bound))
}

/// The value of arithmetic with numbers alone; `None` if it is none.
pub fn constant(text: &str) -> Option<f64> {
    struct None;
    impl Settings for None {
        fn defaults(&self) -> Vec<(String, String)> {
            Vec::new()
        }

        fn value(&self, parameter: &str, _text: &str) -> Result<String, String> {
            Err(format!("unknown parameter \"{parameter}\""))
        }

        fn number(&self, _parameter: &str) -> Option<f64> {
            Option::None
        }
    }
    let mut parser = Parser { text, rest: text, depth: 0, settings: &None };
    let number = parser.constant().ok()?;
    parser.rest.trim().is_empty().then_some(number)
}

struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
    depth: usize,
    settings: &'t dyn Settings,
}

impl<'t> Parser<'t> {
    fn unexpected(&self, expected: &str) -> String {
        let rest = self.rest.trim_start();
        let before = &self.text[..self.text.len() - rest.len()];
        let found: String = rest.chars().take(12).collect();
        let found = if found.is_empty() { "the end".to_owned() } else { format!("\"{found}\"") };
        format!("{found} at character {} of the test; expected {expected}", before.chars().count() + 1)
    }

    /// Takes `token` if it is next.
    fn takes(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        let Some(behind) = rest.strip_prefix(token) else { return false };
        let is_word = token.ends_with(|last: char| last.is_ascii_alphabetic());
        if is_word && behind.starts_with(is_of_word) {
            return false;
        }
        self.rest = behind;
        true
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.takes(token) { Ok(()) } else { Err(self.unexpected(&format!("\"{token}\""))) }
    }

    fn sum(&mut self) -> Result<Expression, String> {
        self.chain(&[("+", Operation::Plus), ("-", Operation::Minus)], Self::product)
    }

    fn product(&mut self) -> Result<Expression, String> {
        self.chain(&[("*", Operation::Times), ("/", Operation::Over)], Self::factor)
    }

    /// Operands with operators of one rank between them, which apply from left to right.
    fn chain(
        &mut self,
        operators: &[(&str, Operation)],
        operand: impl Fn(&mut Self) -> Result<Expression, String>,
    ) -> Result<Expression, String> {
        let mut left = operand(self)?;
        while let Some((_, operation)) = operators.iter().find(|(sign, _)| self.takes(sign)) {
            left = combined(*operation, left, operand(self)?)?;
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.unexpected(&format!("at most {DEPTH_MAX} parentheses within each other")));
        }
        let factor = match () {
            () if self.takes("-") => combined(Operation::Times, Expression::Number(-1.0), self.factor()?),
            () if self.takes("(") => self.within(Self::sum),
            () if self.takes("ratio") => {
                self.expect("(")?;
                let over = self.each()?;
                self.expect(",")?;
                let under = self.within(Self::each)?;
                Ok(Expression::Ratio(Box::new([over, under])))
            }
            () if self.takes("total") => self.function(|of| Expression::Total(Box::new(of))),
            () if self.takes("everywhere") => self.function(|of| Expression::Everywhere(Box::new(of))),
            () if self.takes("ln") => self.function(|of| Expression::Function(Function::Ln, Box::new(of))),
            () if self.takes("sqrt") => self.function(|of| Expression::Function(Function::Sqrt, Box::new(of))),
            () if self.takes("'") => self.measured().map(Expression::Measured),
            () => self.number().map(Expression::Number),
        };
        self.depth -= 1;
        factor
    }

    /// What `inner` reads, and the parenthesis behind it.
    fn within<T>(&mut self, inner: impl Fn(&mut Self) -> Result<T, String>) -> Result<T, String> {
        let read = inner(self)?;
        self.expect(")").map(|()| read)
    }

    fn function(&mut self, of: impl Fn(Expression) -> Expression) -> Result<Expression, String> {
        self.expect("(")?;
        self.within(Self::each).map(of)
    }

    /// A number that each repetition has.
    fn each(&mut self) -> Result<Expression, String> {
        let expression = self.sum()?;
        match expression.kind() {
            Kind::Estimate => Err(self.unexpected("measured numbers within a function, and no ratio")),
            _ => Ok(expression),
        }
    }

    /// The rest of a measured number behind its first quote.
    fn measured(&mut self) -> Result<Measured, String> {
        // An apostrophe within a name has a letter behind it.
        let is_end = |at: &usize| !self.rest[at + 1..].starts_with(|next: char| next.is_ascii_alphabetic());
        let end = self.rest.match_indices('\'').map(|(at, _)| at).find(is_end);
        let Some(name) = end.map(|end| &self.rest[..end]).filter(|name| !name.trim().is_empty()) else {
            return Err(self.unexpected("the name of a measured number and a single quote"));
        };
        self.rest = &self.rest[name.len() + 1..];
        let mut statistic = Statistic::Value;
        if self.rest.starts_with('.') {
            self.rest = &self.rest[1..];
            let Some((_, known)) = STATISTICS.iter().rev().find(|(name, _)| self.takes(name)) else {
                return Err(self.unexpected(&format!("one of {}", STATISTICS.map(|(name, _)| name).join(", "))));
            };
            statistic = *known;
        }
        let mut settings = self.settings.defaults();
        if self.rest.starts_with('{') {
            let Some((inner, rest)) = self.rest[1..].split_once('}') else {
                return Err(self.unexpected("settings in braces such as {loss=1%}"));
            };
            for setting in inner.split(',') {
                let Some((parameter, value)) = setting.split_once('=') else {
                    return Err(self.unexpected("settings in braces such as {loss=1%}"));
                };
                let (parameter, value) = (parameter.trim(), value.trim());
                let value = self.settings.value(parameter, value)?;
                settings.retain(|(known, _)| known != parameter);
                settings.push((parameter.to_owned(), value));
            }
            self.rest = rest;
        }
        Ok(Measured { name: name.to_owned(), statistic, settings })
    }

    fn number(&mut self) -> Result<f64, String> {
        let rest = self.rest.trim_start();
        let word = &rest[..rest.find(|c| !is_of_word(c)).unwrap_or(rest.len())];
        if let Some(number) = self.settings.number(word) {
            self.rest = &rest[word.len()..];
            return Ok(number);
        }
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(rest.len());
        let parsed = rest[..end].replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite());
        let Some(number) = parsed else {
            return Err(self.unexpected(
                "a number, a parameter that is one, a name in single quotes, ratio(..), total(..), everywhere(..), ln(..), sqrt(..) \
                 or a parenthesis",
            ));
        };
        self.rest = &rest[end..];
        Ok(number)
    }

    fn bound(&mut self) -> Result<Bound, String> {
        if self.takes("<") {
            return self.constant().map(Bound::LessThan);
        }
        if self.takes(">") {
            return self.constant().map(Bound::MoreThan);
        }
        if self.takes("from") {
            let from = self.constant()?;
            self.expect("to")?;
            let to = self.constant()?;
            let is_range = from <= to;
            return if is_range {
                Ok(Bound::Within(from, to))
            } else {
                Err(format!("nothing lies from {from} to {to}"))
            };
        }
        if self.takes("within") {
            let percent = self.constant()?;
            self.expect("%")?;
            self.expect("of")?;
            return Ok(Bound::about(self.constant()?, percent / 100.0));
        }
        Err(self.unexpected("a bound: \"< 1\", \"> 1\", \"from 1 to 2\" or \"within 25% of 1\""))
    }

    fn constant(&mut self) -> Result<f64, String> {
        let expression = self.sum()?;
        let number = expression.constant().filter(|number| number.is_finite());
        number.ok_or_else(|| self.unexpected("a bound without measured numbers before this"))
    }
}

/// Whether a character can be part of a function's or parameter's name.
fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// An operation, if both numbers can be combined.
fn combined(operation: Operation, one: Expression, other: Expression) -> Result<Expression, String> {
    match [one.kind(), other.kind()] {
        [Kind::Estimate, Kind::Estimate | Kind::Each] | [Kind::Each, Kind::Estimate] => {
            Err("a ratio can be combined with constants only; write the arithmetic within ratio(.., ..)".to_owned())
        }
        [Kind::Constant, Kind::Estimate] if operation == Operation::Over => {
            Err("nothing can be divided by a ratio; exchange its numbers".to_owned())
        }
        _ => Ok(Expression::Arithmetic(operation, Box::new([one, other]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;

    impl Settings for One {
        fn defaults(&self) -> Vec<(String, String)> {
            vec![("loss".to_owned(), "1%".to_owned())]
        }

        fn value(&self, parameter: &str, text: &str) -> Result<String, String> {
            if parameter == "loss" { Ok(text.to_owned()) } else { Err(format!("unknown parameter \"{parameter}\"")) }
        }

        fn number(&self, parameter: &str) -> Option<f64> {
            (parameter == "loss").then_some(0.01)
        }
    }

    fn problem(text: &str) -> String {
        parse(text, &One).expect_err(text)
    }

    #[test]
    fn a_test_has_the_usual_precedence_and_settings_override_those_of_the_cell() {
        let (expression, bound) = parse("1 - ratio('a'.p999{loss=5%} * 2 + 'b', 'a') < 2 / 3", &One).expect("sound");
        assert_eq!(bound, Bound::LessThan(2.0 / 3.0));
        let settings: Vec<&str> = expression.measured().iter().map(|it| it.settings[0].1.as_str()).collect();
        assert_eq!(settings, ["5%", "1%", "1%"]);
        assert_eq!(expression.measured()[0].statistic, Statistic::Quantile(0.999));
        let Expression::Arithmetic(Operation::Minus, pair) = expression else { panic!("a difference is outermost") };
        let Expression::Ratio(pair) = &pair[1] else { panic!("a ratio is within it") };
        assert!(matches!(&pair[0], Expression::Arithmetic(Operation::Plus, _)));
        assert_eq!(parse("-'a' within 10% of -100", &One).expect("sound").1, Bound::Within(-110.0, -90.0));
        assert_eq!(parse("'a' from -1 to ln(1)", &One).expect("sound").1, Bound::Within(-1.0, 0.0));
        let (index, _) = parse("'Jain's index' + 'a'.max > 1", &One).expect("sound");
        assert_eq!(index.measured()[0].name, "Jain's index");
        assert_eq!(parse("'a' * loss < 8 - 4 / 2 / 2 - 3", &One).expect("sound").1, Bound::LessThan(4.0));
        assert_eq!(parse("'a' < 2 * sqrt(400 * loss)", &One).expect("sound").1, Bound::LessThan(4.0));
    }

    #[test]
    fn nonsense_is_told_with_its_place_and_what_was_expected() {
        let cases = [
            ("'a'", "the end at character 4 of the test; expected a bound"),
            ("'a' < 1 2", "\"2\" at character 9 of the test; expected the end of the test"),
            ("'a < 1", "\"a < 1\" at character 2 of the test; expected the name"),
            ("'a'.p98 < 1", "\"p98 < 1\" at character 5 of the test; expected one of mean, p50"),
            ("a < 1", "\"a < 1\" at character 1 of the test; expected a number, a parameter that is one"),
            ("'a'{lss=1} < 1", "unknown parameter \"lss\""),
            ("'a'{loss} < 1", "\"{loss} < 1\" at character 4 of the test; expected settings in braces"),
            ("'a' < 'b'", "the end at character 10 of the test; expected a bound without measured numbers"),
            ("'a' < 1 / 0", "the end at character 12 of the test; expected a bound"),
            ("ratio('a', ratio('b', 'a')) < 1", "\")"),
            ("ratio('a', 'b') - 'a' < 1", "a ratio can be combined with constants only"),
            ("1 / ratio('a', 'b') < 1", "nothing can be divided by a ratio"),
            ("'a' from 2 to 1", "nothing lies from 2 to 1"),
            ("1 < 2", "the test measures nothing"),
        ];
        for (text, expected) in cases {
            let problem = problem(text);
            assert!(problem.starts_with(expected), "{text}: {problem}");
        }
    }

    #[test]
    fn a_test_without_end_is_refused() {
        assert!(problem(&"(".repeat(1_000)).contains("at most 16 parentheses"));
        assert!(problem(&"-".repeat(1_000)).contains("at most 16 parentheses"));
        assert!(problem(&"1+".repeat(2_000)).contains("at most 2000"));
        assert!(problem(&format!("'a' < {}", "9".repeat(400))).contains("expected"));
        assert!(parse(&format!("'a' < {}1", "1+".repeat(900)), &One).is_ok());
    }
}
