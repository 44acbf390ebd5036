"""Tables that look like real ones: hourly counts of bike rentals, and house prices by place and income."""

from __future__ import annotations

import numpy as np


def draw_bikes(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw hours in time order with counts: rush hours on working days, afternoons on others.

    Features are hour, day of the week, working day, holiday, month, year, temperature, humidity, wind, rain, another temperature, noise.
    """
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    hour, day = t % 24, t // 24
    n_days, weekday = day.max() + 1, day % 7
    holiday = (rng.random(n_days) < 0.03)[day]
    working = (weekday < 5) & ~holiday
    season = np.cos(2 * np.pi * (day - 200) / 365)
    weather = np.repeat(rng.normal(size=n_days), 24)[:n]
    temperature = 12 + 10 * season + 4 * np.cos(2 * np.pi * (hour - 15) / 24) + 3 * weather
    rain = np.repeat(rng.random(4 * n_days), 6)[:n] < 0.12
    wind, humidity = rng.gamma(2, 5, n), 60 + 20 * rain - 10 * season + 8 * rng.normal(size=n)

    def peak(at: float, width: float) -> np.ndarray:
        return np.exp(-0.5 * ((hour - at) / width) ** 2)

    commute = 3.5 * peak(8, 1.2) + 4.5 * peak(17.5, 1.6) + 1.2 * peak(13, 4)
    shape = np.where(working, commute, 3.2 * peak(14, 3.5) + 0.3)
    growth = np.exp(0.04 * (temperature - 12) - 0.6 * rain - 0.01 * wind + 0.3 * day / n_days)
    y = rng.poisson((8 + 90 * shape) * growth * rng.gamma(12, 1 / 12, n)).astype(np.float64)
    columns = [hour, weekday, working, holiday, 1 + (day % 365) // 31, day // 365, temperature, humidity, wind, rain]
    return np.column_stack([*columns, temperature + rng.normal(size=n), rng.normal(size=n)]), y


def draw_houses(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw house prices around two cities on a coast.

    Features are income, age, rooms, bedrooms, population, people per house, latitude, longitude: some of them skewed, some alike.
    """
    rng = np.random.default_rng(seed)
    along = rng.random(n)
    latitude, longitude = 34 + 4 * along + 0.5 * rng.normal(size=n), -118 - 3.5 * along + 0.6 * rng.normal(size=n)
    income, age = rng.gamma(4, 1, n), rng.integers(1, 53, n).astype(np.float64)
    rooms = rng.lognormal(1.6, 0.3, n) + 0.3 * income
    bedrooms = 0.2 * rooms * rng.lognormal(0, 0.1, n)
    population, people = rng.lognormal(7, 0.8, n), rng.lognormal(1, 0.3, n)
    south = np.exp(-((latitude - 34) ** 2 + (longitude + 118.3) ** 2) / 0.5)
    north = np.exp(-((latitude - 37.7) ** 2 + (longitude + 122.3) ** 2) / 0.4)
    city, inland = south + 1.3 * north, longitude + 118 + 0.875 * (latitude - 34)
    value = 0.4 * income + 0.9 * city - 0.35 * inland + 0.004 * age + 0.3 * city * income / 4
    value += 0.25 * np.log(rooms / bedrooms) - 0.5 * np.log(people)
    X = np.column_stack([income, age, rooms, bedrooms, population, people, latitude, longitude])
    return X, np.exp(0.35 * value + 0.22 * rng.normal(size=n))
