//! Calendar arithmetic.

pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

pub(super) const DAY: i64 = 86_400;

/// Days in a cycle of the Gregorian calendar: 400 years.
const CYCLE: i64 = 146_097;

/// A date of the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
}

impl Date {
    /// The date `days` days after 1970-01-01.
    pub(super) fn from_days(days: i64) -> Self {
        // A year that starts in March has its leap day at the end.
        let days = days + 719_468;
        let (cycle, day) = (days.div_euclid(CYCLE), days.rem_euclid(CYCLE));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let january = month >= 10;
        Self {
            year: year + cycle * 400 + i64::from(january),
            month: if january { month - 9 } else { month + 3 },
            day: day - (153 * month + 2) / 5 + 1,
        }
    }

    /// Days since 1970-01-01. Months and days outside their range carry over.
    pub(super) fn days(self) -> i64 {
        let months = self.month - 1;
        let year = self.year.saturating_add(months.div_euclid(12));
        let month = months.rem_euclid(12) + 1;
        let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
        let (cycle, year) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * month + 2) / 5;
        let day = year * 365 + year / 4 - year / 100 + day_of_year;
        cycle.saturating_mul(CYCLE).saturating_add(day - 719_468).saturating_add(self.day - 1)
    }

    /// 1 to 366.
    pub fn day_of_year(self) -> i64 {
        self.days() - Self { month: 1, day: 1, ..self }.days() + 1
    }
}

pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub fn days_in(month: i64, year: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
